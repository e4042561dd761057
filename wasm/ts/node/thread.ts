/** Worker threads of Node. */

import { Worker } from "node:worker_threads";
import type { StartThread } from "../decode/thread.js";

/** A worker with a script of this package. Some flags of the program, such as those of `node -e`, would keep it from starting. */
export const workerOf = (script: URL, name: string): Worker => new Worker(script, { name, execArgv: [] });

/** A worker that decodes. */
export const makeWorker = (): Worker => workerOf(new URL("../decode/node-worker.js", import.meta.url), "zstn");

/** Starts a worker that `make` makes. */
export function nodeThread(make: () => Worker): StartThread {
  return (listener) => {
    const worker = make();
    worker.on("message", (answer) => listener.answered(answer));
    worker.on("messageerror", (cause) => listener.failed(cause));
    worker.on("error", (cause) => listener.failed(cause));
    worker.on("exit", (status) => listener.failed(new Error(`it ended with status ${status}`)));
    return {
      post: (message, transfer) => worker.postMessage(message, transfer),
      hold: (hold) => (hold ? worker.ref() : worker.unref()),
      stop: () => void worker.terminate(),
    };
  };
}
