/** The interface between the module with threads and the workers that are its threads. */

import type { WasmModule } from "../wasm-input.js";

/** The builder of wasm-bindgen-rayon, which determines the number of threads and registers them. */
export interface Builder {
  numThreads(): number;
  /** The argument of `wbg_rayon_start_worker`. */
  receiver(): number;
  build(): void;
}

/** The data that a new thread receives. */
export interface ThreadInit {
  module: WasmModule;
  memory: unknown;
  receiver: number;
}

/** Starts one thread; resolves once it is ready. */
export type StartRayonThread = (threadInit: ThreadInit) => Promise<object>;

let start: StartRayonThread | undefined;

/** The running threads. They are referenced here because browsers may collect workers that nothing refers to. */
export let threads: readonly object[] = [];

/** Sets how threads are started on this platform. */
export function startThreadsWith(starter: StartRayonThread): void {
  start = starter;
}

/** Starts the threads of the pool. The module's glue calls this function. */
export async function startWorkers(module: WasmModule, memory: unknown, builder: Builder): Promise<void> {
  const threadInit: ThreadInit = { module, memory, receiver: builder.receiver() };
  threads = await Promise.all(Array.from({ length: builder.numThreads() }, () => start!(threadInit)));
  builder.build();
}
