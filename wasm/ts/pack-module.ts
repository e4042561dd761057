/** The interface of the WebAssembly module for packing and single frames. A page that only reads never loads it. */

import type { Instance } from "./instance.js";
import { lazyInstance } from "./module-loader.js";
import type { PackedTensor } from "./pack-report.js";

/** A safetensors file being packed. Does no I/O. */
export interface CorePacking {
  /** Returns [offset, length] of the next range to supply, which may be empty; `undefined` when the container is complete. */
  needs(): Float64Array | undefined;
  /** Returns the name of the tensor that the range belongs to. */
  tensor(): string | undefined;
  /** Takes the bytes of that range and returns the next bytes of the container, which may be none. */
  supply(bytes: Uint8Array): Uint8Array<ArrayBuffer>;
  /** Returns the first bytes of the container if `supply` has not returned them, once it is complete. */
  prefix(): Uint8Array<ArrayBuffer>;
  /** Returns whether single tensors can be read from the container, once it is complete. */
  isIndexed(): boolean;
  /** Returns all tensors in data order, once the container is complete. */
  packed(): PackedTensor[];
  free(): void;
}

/** A safetensors file being packed against a base. Does no I/O. */
export interface CoreDeltaPacking {
  /** Returns [offset, length] of the next range of the file and the same of its base, which may be empty; `undefined` when the delta is complete. */
  needs(): Float64Array | undefined;
  /** Returns the name of the tensor that the ranges belong to. */
  tensor(): string | undefined;
  /** Returns how many bytes of both files are read in all, once the headers are known. */
  readBytes(): number | undefined;
  /** Takes the bytes of those ranges and returns the next bytes of the delta, which may be none. */
  supply(bytes: Uint8Array, base: Uint8Array): Uint8Array<ArrayBuffer>;
  /** Returns the first bytes of the delta, once it is complete. */
  prefix(): Uint8Array<ArrayBuffer>;
  /** Returns all tensors in data order, once the delta is complete. */
  packed(): PackedTensor[];
  free(): void;
}

/** The loaded module. */
export interface PackCore {
  /** With `extended`, `supply` does not return the first bytes of the container: `prefix` does. */
  readonly Packing: { new (sizeBytes: number, effort: string, allowTruncated: boolean, statistics: boolean, extended: boolean, sha256?: string): CorePacking };
  /** With `prefixLast` or `extended`, `supply` does not return the first bytes of the delta: `prefix` does. */
  readonly DeltaPacking: { new (sizeBytes: number, baseBytes: number, effort: string, prefixLast: boolean, extended: boolean): CoreDeltaPacking };
  decompress(frame: Uint8Array, maxBytes: number): Uint8Array<ArrayBuffer>;
  compress(bytes: Uint8Array, dtype: string | undefined, effort: string): Uint8Array<ArrayBuffer>;
  decompressDelta(frame: Uint8Array, base: Uint8Array, maxBytes: number): Uint8Array<ArrayBuffer>;
  compressDelta(bytes: Uint8Array, base: Uint8Array, dtype: string | undefined, effort: string): Uint8Array<ArrayBuffer>;
}

/** Returns the module. */
export const loadPackModule: () => Promise<Instance<PackCore>> = /* @__PURE__ */ lazyInstance({
  name: "coder",
  url: () => new URL("./core/zstn_coder_bg.wasm", import.meta.url),
  glue: () => import("./core/zstn_coder.js"),
});
