/** The type of the generated glue code of the module with threads. The Rust build writes the script, with a nightly toolchain; this declaration is written by hand. */

import type { CoreDecode } from "../core.js";
import type { ReaderCore } from "../reader-core.js";
import type { CoreInput, WasmModule } from "../wasm-input.js";

/** Instantiates the module. */
declare const init: (input: { module_or_path: CoreInput }) => Promise<unknown>;
export default init;
/** Instantiates the module in another thread, with the memory of the first instance. */
export const initSync: (input: { module: WasmModule | Uint8Array; memory?: unknown }) => unknown;
/** Starts `threads` threads through `startWorkers` of threads/rayon.ts. */
export const initThreadPool: (threads: number) => Promise<unknown>;
/** Runs the work loop of a pool thread; it never returns. */
export const wbg_rayon_start_worker: (receiver: number) => void;
export const decode: CoreDecode;
export const decodeFrame: ReaderCore["decodeFrame"];
