/** Workers of browsers. */

import { settings } from "../configure.js";
import type { StartWorker } from "./worker-handle.js";

/** Creates a decoding worker. Bundlers recognise these very words and include the script. */
const createWorker = (): Worker => new Worker(new URL("./web-worker.js", import.meta.url), { type: "module", name: "zstn" });

/** Returns the number of cores, as far as the browser reports it. */
export const coreCount = (): number => globalThis.navigator?.hardwareConcurrency || 1;

/** Returns a function that starts workers which `create` creates. */
export function webWorkerStarter(create: () => Worker): StartWorker {
  return (listener) => {
    const worker = create();
    worker.onmessage = ({ data }) => listener.onMessage(data);
    worker.onmessageerror = () => listener.onError(new Error("a message could not be read"));
    worker.onerror = (event) => {
      event.preventDefault(); // the caller who waits for a tensor gets it
      listener.onError(new Error(event.message || "its script could not be loaded"));
    };
    return {
      post: (message, transfer) => worker.postMessage(message, transfer),
      setKeepAlive() {},
      stop: () => worker.terminate(),
    };
  };
}

/** Starts a decoding worker. */
export const startWebWorker: StartWorker = (listener) => webWorkerStarter((settings.createWorker as (() => Worker) | undefined) ?? createWorker)(listener);
