/** Loads `generated-file.ts`, which few programs need. */

type GeneratedFile = typeof import("./generated-file.js");

let bundled: GeneratedFile | undefined;

/** Sets the bundled copy of that module, for platforms that do not allow import(). */
export function bundleGeneratedFile(generatedFile: GeneratedFile): void {
  bundled = generatedFile;
}

/** Returns that module, and imports it first unless a bundled copy was set. */
export async function loadGeneratedFile(): Promise<GeneratedFile> {
  return bundled ?? import("./generated-file.js");
}
