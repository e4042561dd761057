/** The entry `zstn/threads` for Node. */

import { availableParallelism } from "node:os";
import type { Worker } from "node:worker_threads";
import type { WorkerPool } from "../decode/worker-pool.js";
import { isDeno } from "../is-deno.js";
import { nodeWorkerStarter, workerOf } from "../node/worker-handle.js";
import { poolOfThreads } from "./pool.js";
import type { ThreadPoolOptions } from "./pool.js";
import { threadPool as webThreadPool } from "./web.js";

export type { WorkerPool } from "../decode/worker-pool.js";
export type { CoreInput } from "../wasm-input.js";
export type { ThreadPoolOptions } from "./pool.js";

/**
 * Creates a pool of decoding threads, for the option `workers` of one or more models. Threads start on demand. Throws
 * an `InvalidInputError` for an invalid option.
 */
export function threadPool(options: ThreadPoolOptions = {}): WorkerPool {
  // In Deno, its own workers are faster than the threads of `node:worker_threads`.
  if (isDeno()) return webThreadPool(options);
  const create = (options.createWorker as (() => Worker) | undefined) ?? (() => workerOf(new URL("./node-worker.js", import.meta.url), "zstn threads"));
  return poolOfThreads(options, availableParallelism(), nodeWorkerStarter(create));
}
