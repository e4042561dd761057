/** Starts worker threads in Node. */

import { Worker } from "node:worker_threads";
import { settings } from "../configure.js";
import type { StartWorker } from "../decode/worker-handle.js";

/**
 * Creates a worker that runs a script of this package. It does not inherit the flags of the process, because some
 * flags, such as `node -e`, would keep it from starting.
 */
export const workerOf = (script: URL, name: string): Worker => new Worker(script, { name, execArgv: [] });

/** Creates a decoding worker. */
const createWorker = (): Worker => workerOf(new URL("../decode/node-worker.js", import.meta.url), "zstn");

/** Returns a function that starts the workers that `create` creates. */
export function nodeWorkerStarter(create: () => Worker): StartWorker {
  return (listener) => {
    const worker = create();
    worker.on("message", (response) => listener.onMessage(response));
    worker.on("messageerror", (cause) => listener.onError(cause));
    worker.on("error", (cause) => listener.onError(cause));
    worker.on("exit", (status) => listener.onError(new Error(`it ended with status ${status}`)));
    return {
      post: (message, transfer) => worker.postMessage(message, transfer),
      setKeepAlive: (keepAlive) => (keepAlive ? worker.ref() : worker.unref()),
      stop: () => void worker.terminate(),
    };
  };
}

/** Starts a decoding worker, with the `createWorker` of `configure` if it is set. */
export const startNodeWorker: StartWorker = (listener) => nodeWorkerStarter((settings.createWorker as (() => Worker) | undefined) ?? createWorker)(listener);
