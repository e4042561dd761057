/** The URLs of worker scripts. */

/**
 * Returns the URL of the script that `create` would start, without starting it. Bundlers recognise only `new Worker(new
 * URL("…", import.meta.url))` and replace the URL in it, so there is no other way to read it.
 */
export function scriptAddress(create: () => Worker): string {
  const scope = globalThis as { Worker: unknown };
  const original = scope.Worker;
  let address = "";
  scope.Worker = class {
    constructor(script: string | URL) {
      address = String(script);
    }
  };
  try {
    create();
  } finally {
    scope.Worker = original;
  }
  return new URL(address, globalThis.document?.baseURI ?? globalThis.location?.href).href;
}

/**
 * Returns the reason that the script that `create` starts could not be loaded, for an error message. Browsers report no
 * reason.
 */
export function notLoaded(create: (() => Worker) | undefined): string {
  const script = create ? `its script, ${scriptAddress(create)}, could not be loaded` : "its script could not be loaded";
  return globalThis.crossOriginIsolated ? `${script}; on a page that is cross-origin isolated it needs the header Cross-Origin-Embedder-Policy: require-corp as well` : script;
}
