/** The seam to the WebAssembly core that reads: what it offers. */

import * as glue from "./core/zstn_wasm.js";
import { lazyModule } from "./module.js";
import type { CoreInput, Start } from "./module.js";
import type { TensorInfo } from "./tensor.js";

/** Recognises a file from its first bytes and says which further ranges it needs. Does no I/O. */
export interface CoreOpening {
  /** [offset, length, offset, length, …] still missing; empty when ready. */
  needs(): Float64Array;
  supply(offset: number, bytes: Uint8Array): void;
  /** Uses up the opening. */
  finish(): CoreCatalog;
  free(): void;
}

/** What a recognised file contains. */
export interface CoreCatalog {
  kind(): string;
  metadata(): Record<string, string>;
  /** In data order. */
  tensors(): TensorInfo[];
  /** Length of the safetensors file that this is or was packed from, or of all tensors of a zTensor file, in bytes. */
  originalBytes(): number;
  /** Stored bytes to the raw little-endian bytes of the tensor, in a fresh array. */
  decode(index: number, stored: Uint8Array): Uint8Array<ArrayBuffer>;
  /** The same for a tensor that also needs the raw bytes of the base's tensor of its name. */
  decodeAgainst(index: number, stored: Uint8Array, base: Uint8Array): Uint8Array<ArrayBuffer>;
  /** Whether it is a delta. */
  needsBase(): boolean;
  /** Throws if the delta was made against something else. */
  checkBase(base: CoreCatalog): void;
  free(): void;
}

/** The core, loaded. */
export interface Core {
  readonly Opening: {
    new (sizeBytes: number, head: Uint8Array): CoreOpening;
    /** Length of the head that `new Opening` wants, in bytes. */
    headBytes(): number;
  };
}

/** Loads the core once; a failed attempt may be repeated. */
export function lazyCore(start: Start): (input?: CoreInput) => Promise<Core> {
  return lazyModule({ file: "zstn_wasm_bg.wasm", loader: "init", glue: () => glue }, start);
}
