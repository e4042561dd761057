/** Starts workers in browsers and in Deno. */

import { settings } from "../configure.js";
import { isDeno } from "../is-deno.js";
import { startFromBlob } from "./cross-origin-worker.js";
import { notLoaded, scriptAddress } from "./script-address.js";
import type { StartWorker } from "./worker-handle.js";

/** Bundlers recognise exactly this expression and include the script. */
const createFromScript = (): Worker => new Worker(new URL("./web-worker.js", import.meta.url), { type: "module", name: "zstn" });

/** Returns the number of processor cores that the browser reports; 1 if it reports none. */
export const coreCount = (): number => globalThis.navigator?.hardwareConcurrency || 1;

/**
 * Returns whether this code runs in a worker of Firefox. When such a worker starts another worker, it sometimes hangs
 * forever: in Firefox 153, about once in fifty times on a busy machine.
 */
export const isWorkerOfFirefox = (): boolean => !("document" in globalThis) && /\bFirefox\//.test(globalThis.navigator?.userAgent ?? "");

/**
 * Returns a function that starts the workers that `create` creates. Error messages contain the URL of the script that
 * `named` would start.
 */
export function webWorkerStarter(create: () => Worker, named?: () => Worker): StartWorker {
  return (listener) => {
    const worker = create();
    worker.onmessage = ({ data }) => listener.onMessage(data);
    worker.onmessageerror = () => listener.onError(new Error("a message could not be read"));
    worker.onerror = (event) => {
      event.preventDefault(); // the caller that waits for a tensor receives the error
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

/**
 * Creates a decoding worker. A page cannot start a script of another origin directly; a script of the page's own origin
 * has to import it.
 */
function createWorker(): Worker {
  const { location } = globalThis as { location?: Location };
  if (location === undefined) return createFromScript();
  const { href, origin, protocol } = new URL(scriptAddress(createFromScript));
  return /^https?:$/.test(protocol) && origin !== location.origin ? startFromBlob(href) : createFromScript();
}

/** Starts a decoding worker, with the `createWorker` of `configure` if it is set. */
export const startWebWorker: StartWorker = (listener) => {
  const create = settings.createWorker as (() => Worker) | undefined;
  const start = create ? webWorkerStarter(create) : webWorkerStarter(createWorker, createFromScript);
  return start(listener);
};
