/** The interface of the WebAssembly module for packing and for single frames. A page that only reads models never loads it. */

import type { Instance } from "./instance.js";
import { lazyInstance } from "./module-loader.js";
import type { PackedTensor } from "./pack-report.js";

/** A file that is being packed. The caller does all I/O. */
export interface CorePacking {
  /**
   * Packs the file with this virtual header, because it is not a safetensors file; called before `supply`. `head`
   * contains the first bytes of the file, which `needs` does not return again. `codings` are pairs of numbers: the offset
   * of an entry, and the bytes of a block or 0.
   */
  describe(head: Uint8Array, header: Uint8Array, codings: Float64Array): void;
  /** Returns the next range to supply, [offset, length], which may be empty; `undefined` when the container is complete. */
  needs(): Float64Array | undefined;
  /** Returns the name of the tensor that the range belongs to; `undefined` if it belongs to none. */
  tensor(): string | undefined;
  /** Takes the bytes of that range and returns the next bytes of the container, possibly none. */
  supply(bytes: Uint8Array): Uint8Array<ArrayBuffer>;
  /** Returns the first bytes of the container; empty until it is complete, and if `supply` has returned them. */
  prefix(): Uint8Array<ArrayBuffer>;
  /** Returns whether single tensors can be read from the complete container. */
  isIndexed(): boolean;
  /** Returns all tensors of the complete container, in data order. */
  packed(): PackedTensor[];
  free(): void;
}

/** A safetensors file that is being packed against a base. The caller does all I/O. */
export interface CoreDeltaPacking {
  /**
   * Returns the next range of the file and of its base, [offset, length, offset, length], each possibly empty;
   * `undefined` when the delta is complete.
   */
  needs(): Float64Array | undefined;
  /** Returns the name of the tensor that the ranges belong to; `undefined` if they belong to none. */
  tensor(): string | undefined;
  /** Returns the total number of bytes to read from both files; `undefined` until the headers have been parsed. */
  readBytes(): number | undefined;
  /** Takes the bytes of those ranges and returns the next bytes of the delta, possibly none. */
  supply(bytes: Uint8Array, base: Uint8Array): Uint8Array<ArrayBuffer>;
  /**
   * Returns the first bytes of the delta; empty until the delta is complete. With `prefixLast` or `extended`, write
   * them before everything that `supply` returned; otherwise `supply` has already returned them.
   */
  prefix(): Uint8Array<ArrayBuffer>;
  /** Returns all tensors of the complete delta, in data order. */
  packed(): PackedTensor[];
  free(): void;
}

/** The classes and functions that the module for packing exports. */
export interface PackCore {
  /** With `extended`, `prefix` returns the first bytes of the container, and `supply` does not. */
  readonly Packing: { new (sizeBytes: number, effort: string, allowTruncated: boolean, statistics: boolean, extended: boolean, sha256?: string): CorePacking };
  /** With `prefixLast` or `extended`, `prefix` returns the first bytes of the delta, and `supply` does not. */
  readonly DeltaPacking: { new (sizeBytes: number, baseBytes: number, effort: string, prefixLast: boolean, extended: boolean): CoreDeltaPacking };
  decompress(frame: Uint8Array, maxBytes: number): Uint8Array<ArrayBuffer>;
  compress(bytes: Uint8Array, dtype: string | undefined, effort: string): Uint8Array<ArrayBuffer>;
  decompressDelta(frame: Uint8Array, base: Uint8Array, maxBytes: number): Uint8Array<ArrayBuffer>;
  compressDelta(bytes: Uint8Array, base: Uint8Array, dtype: string | undefined, effort: string): Uint8Array<ArrayBuffer>;
}

/** Returns the module, and loads it first if necessary. Rejects with a `CoreLoadError` if it cannot be loaded. */
export const loadPackModule: () => Promise<Instance<PackCore>> = /* @__PURE__ */ lazyInstance({
  name: "coder",
  url: () => new URL("./core/zstn_coder_bg.wasm", import.meta.url),
  glue: () => import("./core/zstn_coder.js"),
});
