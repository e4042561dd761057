/**
 * The entry `zstn/threads`: decoding on threads that share memory, for pages that are cross-origin isolated. One large
 * tensor takes all of them; a `workerPool` decodes several tensors at once and works everywhere.
 */

import { coreCount, webThread } from "../decode/web-thread.js";
import type { WorkerPool } from "../decode/pool.js";
import { UnsupportedError } from "../errors.js";
import { poolOfThreads } from "./pool.js";
import type { ThreadPoolOptions } from "./pool.js";

export type { WorkerPool } from "../decode/pool.js";
export type { CoreInput } from "../module.js";
export type { ThreadPoolOptions } from "./pool.js";

/** Threads that decode tensors, for the option `workers` of one model or several. They are started when they are needed. */
export function threadPool(options: ThreadPoolOptions = {}): WorkerPool {
  if (globalThis.crossOriginIsolated === false) {
    throw new UnsupportedError(
      "Threads share memory, which this page may not have: it has to be served with the headers Cross-Origin-Opener-Policy: same-origin and " +
        "Cross-Origin-Embedder-Policy: require-corp. A `workerPool` of `zstn` needs neither.",
    );
  }
  const make = (options.worker as (() => Worker) | undefined) ?? (() => new Worker(new URL("./web-worker.js", import.meta.url), { type: "module", name: "zstn threads" }));
  return poolOfThreads(options, coreCount(), webThread(make));
}
