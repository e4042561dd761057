/** The seam between the module with threads and the workers that are its threads. */

import type { WasmModule } from "../module.js";

/** Of wasm-bindgen-rayon: says how many threads it wants, and takes them. */
export interface Builder {
  numThreads(): number;
  /** Where the threads find their work, for `wbg_rayon_start_worker`. */
  receiver(): number;
  build(): void;
}

/** What a thread is started with. */
export interface ThreadSeed {
  module: WasmModule;
  memory: unknown;
  receiver: number;
}

/** Starts one thread; resolves once it is ready. */
export type StartRayonThread = (seed: ThreadSeed) => Promise<object>;

let start: StartRayonThread | undefined;

/** The threads that run. Browsers may collect workers that nothing refers to. */
export let threads: readonly object[] = [];

/** Says how threads are started here. */
export function startThreadsWith(starter: StartRayonThread): void {
  start = starter;
}

/** Called by the module's glue. */
export async function startWorkers(module: WasmModule, memory: unknown, builder: Builder): Promise<void> {
  const seed: ThreadSeed = { module, memory, receiver: builder.receiver() };
  threads = await Promise.all(Array.from({ length: builder.numThreads() }, () => start!(seed)));
  builder.build();
}
