/** Loading the part of this package that works with WebAssembly. */

type CoreFiles = typeof import("./core-files.js");

let bundled: CoreFiles | undefined;

/** Sets that part, where import() is not allowed. */
export function bundleCoreFiles(coreFiles: CoreFiles): void {
  bundled = coreFiles;
}

/** Returns that part. */
export async function loadCoreFiles(): Promise<CoreFiles> {
  return bundled ?? import("./core-files.js");
}
