/** Workers of browsers, and of Deno. */

import { settings } from "../configure.js";
import { isDeno } from "../deno.js";
import { startFromBlob } from "./cross-origin-worker.js";
import { notLoaded, scriptAddress } from "./script-address.js";
import type { StartWorker } from "./worker-handle.js";

/** Bundlers recognise these very words and include the script. */
const createFromScript = (): Worker => new Worker(new URL("./web-worker.js", import.meta.url), { type: "module", name: "zstn" });

/** Returns the number of cores, as far as the browser reports it. */
export const coreCount = (): number => globalThis.navigator?.hardwareConcurrency || 1;

/**
 * Returns whether this is a worker of Firefox. While one of those starts a worker of its own, it now and then stops for
 * good: in Firefox 153 about once in fifty times on a busy machine.
 */
export const isWorkerOfFirefox = (): boolean => !("document" in globalThis) && /\bFirefox\//.test(globalThis.navigator?.userAgent ?? "");

/** Returns a function that starts workers which `create` creates; errors name the script that `named` would start. */
export function webWorkerStarter(create: () => Worker, named?: () => Worker): StartWorker {
  return (listener) => {
    const worker = create();
    worker.onmessage = ({ data }) => listener.onMessage(data);
    worker.onmessageerror = () => listener.onError(new Error("a message could not be read"));
    worker.onerror = (event) => {
      event.preventDefault(); // the caller who waits for a tensor gets it
      listener.onError(new Error(event.message || notLoaded(named)));
    };
    return {
      holdsProcess: isDeno(),
      post: (message, transfer) => worker.postMessage(message, transfer),
      setKeepAlive() {},
      stop: () => worker.terminate(),
    };
  };
}

/** Creates a decoding worker. A script on another origin than the page may only be imported by one of the page. */
function createWorker(): Worker {
  const { location } = globalThis as { location?: Location };
  if (location === undefined) return createFromScript();
  const { href, origin, protocol } = new URL(scriptAddress(createFromScript));
  return /^https?:$/.test(protocol) && origin !== location.origin ? startFromBlob(href) : createFromScript();
}

/** Starts a decoding worker. */
export const startWebWorker: StartWorker = (listener) => {
  const create = settings.createWorker as (() => Worker) | undefined;
  const start = create ? webWorkerStarter(create) : webWorkerStarter(createWorker, createFromScript);
  return start(listener);
};
