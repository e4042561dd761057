/** The interface of the WebAssembly module `reader`, which decodes tensors of packed files whose heads TypeScript has parsed. */

import type { WasmModule } from "./wasm-input.js";

/**
 * The functions that the module exports. A `task` describes a tensor that is decoded from one frame; `FrameTask` in
 * `core/src/catalog/frame_task.rs` documents its encoding.
 */
export interface ReaderCore {
  /** Returns the compiled module that this instance runs. */
  compiledModule(): WasmModule;
  /** Decodes a tensor from its stored bytes, into `into` if it is given, which has exactly the length of the tensor. */
  decodeFrame(task: Uint8Array, stored: Uint8Array, into?: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>;
  /**
   * Returns the plan for reading the bytes `begin` to `end` of a tensor, [band, offset, length, …]: the number of bytes of
   * the tensor that are decoded together, and the ranges of the file to fetch.
   */
  partRanges(task: Uint8Array, table: Uint8Array, begin: number, end: number): Float64Array;
  /** Decodes the bytes `begin` to `end` of a tensor from the bytes of the ranges that `partRanges` returns. */
  decodePart(task: Uint8Array, table: Uint8Array, begin: number, end: number, fetched: Uint8Array[]): Uint8Array<ArrayBuffer>;
  /** Returns the stored size of each plane, in the lines that `CoreModel.planeSizes` documents. */
  planeSizes(task: Uint8Array, table: Uint8Array): string;
  /** Decodes the copy of a header of `lengthBytes` bytes, which the integrity section contains. */
  decodeHeader(copy: Uint8Array, lengthBytes: number): Uint8Array<ArrayBuffer>;
}
