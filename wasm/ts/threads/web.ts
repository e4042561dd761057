/**
 * The entry `zstn/threads`: decoding on threads that share memory, for pages that are cross-origin isolated. All
 * threads decode one large tensor together. In contrast, a `workerPool` decodes several tensors at once and works
 * everywhere.
 *
 * @module zstn/threads
 */

import { coreCount, webWorkerStarter } from "../decode/web-worker-handle.js";
import type { WorkerPool } from "../decode/worker-pool.js";
import { UnsupportedError } from "../errors.js";
import { poolOfThreads } from "./pool.js";
import type { ThreadPoolOptions } from "./pool.js";

export type { WorkerPool } from "../decode/worker-pool.js";
export type { CoreInput } from "../wasm-input.js";
export type { ThreadPoolOptions } from "./pool.js";

const createWorker = (): Worker => new Worker(new URL("./web-worker.js", import.meta.url), { type: "module", name: "zstn threads" });

/**
 * Creates a pool of decoding threads, for the option `workers` of one or more models. Threads start on demand. Throws
 * an `UnsupportedError` if the page may not share memory or the runtime has no workers, and an `InvalidInputError` for
 * an invalid option.
 */
export function threadPool(options: ThreadPoolOptions = {}): WorkerPool {
  if (globalThis.crossOriginIsolated === false) {
    throw new UnsupportedError(
      "Threads share memory, which this page may not have: it has to be served with the headers Cross-Origin-Opener-Policy: same-origin and " +
        "Cross-Origin-Embedder-Policy: require-corp. A `workerPool` of `zstn` needs neither.",
    );
  }
  if (typeof Worker === "undefined") throw new UnsupportedError("This runtime has no workers, and so no threads: tensors are decoded on the calling thread.");
  if (typeof SharedArrayBuffer === "undefined") {
    throw new UnsupportedError("Threads share memory, and this browser has no SharedArrayBuffer. A `workerPool` of `zstn` does not need it.");
  }
  const create = options.createWorker as (() => Worker) | undefined;
  return poolOfThreads(options, coreCount(), create ? webWorkerStarter(create) : webWorkerStarter(createWorker, createWorker));
}
