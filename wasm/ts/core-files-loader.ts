/** Loads `core-files.ts`, the part of this package that reads packed files. */

type CoreFiles = typeof import("./core-files.js");

let bundled: CoreFiles | undefined;

/** Sets a bundled copy of `core-files.ts`, for platforms that do not allow import(). */
export function bundleCoreFiles(coreFiles: CoreFiles): void {
  bundled = coreFiles;
}

/** Returns the module `core-files.ts`, and imports it first unless a bundled copy was set. */
export async function loadCoreFiles(): Promise<CoreFiles> {
  return bundled ?? import("./core-files.js");
}
