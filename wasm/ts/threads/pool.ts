/** A pool with one worker, whose module runs threads with shared memory. */

import { WorkerPool, mostWorkers } from "../decode/worker-pool.js";
import type { StartWorker } from "../decode/worker-handle.js";
import { InvalidInputError } from "../errors.js";
import { checkOptions } from "../known-options.js";
import type { OptionNames } from "../known-options.js";
import type { CoreInput } from "../wasm-input.js";
import type { InitMessage } from "./message.js";

/** Options of `threadPool`. */
export interface ThreadPoolOptions {
  /** The number of threads that decode a tensor together. By default the number of processor cores. */
  threads?: number;
  /** Tensors shorter than this, in bytes, are decoded on the calling thread. 256 KiB by default. */
  minBytes?: number;
  /** The module (`zstn/zstn_threads_bg.wasm`) or its URL, if it is not next to the scripts. */
  module?: CoreInput;
  /** Creates a `Worker` (in Node, one of `node:worker_threads`) whose script imports `zstn/threads-worker`. */
  createWorker?: () => object;
}

/** Returns a pool whose worker is started by `start`. Throws an `InvalidInputError` for an invalid option. */
export function poolOfThreads(options: ThreadPoolOptions, cores: number, start: StartWorker): WorkerPool {
  checkOptions("threadPool()", options, { threads: 1, minBytes: 1, module: 1, createWorker: 1 } satisfies OptionNames<ThreadPoolOptions>);
  const { threads, minBytes, module } = options;
  const message: InitMessage = { threads: threads ?? cores, module };
  const most = mostWorkers(cores);
  if (!Number.isInteger(message.threads) || message.threads < 1 || message.threads > most) {
    throw new InvalidInputError(`The number of threads must be a whole number from 1 to ${most} on this machine, not ${String(threads)}.`);
  }
  const startWithMessage: StartWorker = (listener) => {
    const handle = start(listener);
    handle.post(message, []);
    return { ...handle, hasModule: true };
  };
  return new WorkerPool(minBytes === undefined ? { size: 1 } : { size: 1, minBytes }, 1, startWithMessage);
}
