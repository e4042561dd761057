/** The glue of the module with threads, which not every machine can build. */

import type { CoreDecode } from "../core.js";
import type { CoreInput, WasmModule } from "../wasm-input.js";

/** Starts the module. */
declare const init: (input: { module_or_path: CoreInput }) => Promise<unknown>;
export default init;
/** Starts the module in another thread, with the memory of the first. */
export const initSync: (input: { module: WasmModule | Uint8Array; memory?: unknown }) => unknown;
/** Starts `threads` threads, by `startWorkers` of threads/rayon.ts. */
export const initThreadPool: (threads: number) => Promise<unknown>;
/** What a thread of the pool does; it never returns. */
export const wbg_rayon_start_worker: (receiver: number) => void;
export const decode: CoreDecode;
