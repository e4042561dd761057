/** Loading what generates the safetensors file of a model, which few programs need. */

type GeneratedFile = typeof import("./generated-file.js");

let bundled: GeneratedFile | undefined;

/** Sets it, where import() is not allowed. */
export function bundleGeneratedFile(generatedFile: GeneratedFile): void {
  bundled = generatedFile;
}

/** Returns it. */
export async function loadGeneratedFile(): Promise<GeneratedFile> {
  return bundled ?? import("./generated-file.js");
}
