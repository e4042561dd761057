/** Loads `generated-file.ts`, which few programs need. */

type GeneratedFile = typeof import("./generated-file.js");

let bundled: GeneratedFile | undefined;

/** Sets a bundled copy of `generated-file.ts`, for platforms that do not allow import(). */
export function bundleGeneratedFile(generatedFile: GeneratedFile): void {
  bundled = generatedFile;
}

/** Returns the module `generated-file.ts`, and imports it first unless a bundled copy was set. */
export async function loadGeneratedFile(): Promise<GeneratedFile> {
  return bundled ?? import("./generated-file.js");
}
