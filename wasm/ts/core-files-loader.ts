/** Loads `core-files.ts`, the part of this package that works with WebAssembly. */

type CoreFiles = typeof import("./core-files.js");

let bundled: CoreFiles | undefined;

/** Sets the bundled copy of that part, for platforms that do not allow import(). */
export function bundleCoreFiles(coreFiles: CoreFiles): void {
  bundled = coreFiles;
}

/** Returns that part, and imports it first unless a bundled copy was set. */
export async function loadCoreFiles(): Promise<CoreFiles> {
  return bundled ?? import("./core-files.js");
}
