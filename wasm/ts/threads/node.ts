/** The entry `zstn/threads` for Node. */

import { availableParallelism } from "node:os";
import type { Worker } from "node:worker_threads";
import type { WorkerPool } from "../decode/pool.js";
import { nodeThread, workerOf } from "../node/thread.js";
import { poolOfThreads } from "./pool.js";
import type { ThreadPoolOptions } from "./pool.js";

export type { WorkerPool } from "../decode/pool.js";
export type { CoreInput } from "../module.js";
export type { ThreadPoolOptions } from "./pool.js";

/** Threads that decode tensors, for the option `workers` of one model or several. They are started when they are needed. */
export function threadPool(options: ThreadPoolOptions = {}): WorkerPool {
  const make = (options.worker as (() => Worker) | undefined) ?? (() => workerOf(new URL("./node-worker.js", import.meta.url), "zstn threads"));
  return poolOfThreads(options, availableParallelism(), nodeThread(make));
}
