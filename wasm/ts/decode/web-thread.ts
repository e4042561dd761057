/** Workers of browsers. */

import type { StartThread } from "./thread.js";

/** Makes the worker; bundlers recognise these very words and carry the script along. */
export const makeWorker = (): Worker => new Worker(new URL("./web-worker.js", import.meta.url), { type: "module", name: "zstn" });

/** Cores of this machine, as far as the browser tells. */
export const coreCount = (): number => globalThis.navigator?.hardwareConcurrency || 1;

/** Starts a worker that `make` makes. */
export function webThread(make: () => Worker): StartThread {
  return (listener) => {
    const worker = make();
    worker.onmessage = ({ data }) => listener.answered(data);
    worker.onmessageerror = () => listener.failed(new Error("a message could not be read"));
    worker.onerror = (event) => {
      event.preventDefault(); // it is told to whoever waits for a tensor
      listener.failed(new Error(event.message || "its script could not be loaded"));
    };
    return {
      post: (message, transfer) => worker.postMessage(message, transfer),
      hold() {},
      stop: () => worker.terminate(),
    };
  };
}
