/** A pool of one worker, whose module has threads and memory that they share. */

import { WorkerPool } from "../decode/pool.js";
import type { StartThread } from "../decode/thread.js";
import { InvalidInputError } from "../errors.js";
import type { CoreInput } from "../module.js";
import type { Beginning } from "./message.js";

/** What `threadPool` may be given. */
export interface ThreadPoolOptions {
  /** How many threads decode a tensor: as many as there are cores unless said otherwise. */
  threads?: number;
  /** Tensors of fewer bytes are decoded on the thread that asks; 256 KiB unless said otherwise. */
  leastBytes?: number;
  /** The module, or its address, where it is not beside the scripts: `zstn/zstn_threads_bg.wasm`. */
  module?: CoreInput;
  /** Makes a `Worker` (in Node, one of `node:worker_threads`) whose script imports `zstn/threads-worker`. */
  worker?: () => object;
}

/** The pool that `start` starts the worker of. */
export function poolOfThreads({ threads, leastBytes, module }: ThreadPoolOptions, cores: number, start: StartThread): WorkerPool {
  const beginning: Beginning = { threads: threads ?? cores, module };
  if (!Number.isInteger(beginning.threads) || beginning.threads < 1) {
    throw new InvalidInputError(`The number of threads is a whole number from 1 on, not ${String(threads)}.`);
  }
  const begin: StartThread = (listener) => {
    const thread = start(listener);
    thread.post(beginning, []);
    return { ...thread, hasModule: true };
  };
  return new WorkerPool(leastBytes === undefined ? { size: 1 } : { size: 1, leastBytes }, 1, begin);
}
