/** Single frames: compressing one buffer, and decompressing it. */

import type { PackModule } from "./pack-module.js";
import { InvalidInputError } from "./errors.js";
import { callCore } from "./core-errors.js";

/** How much time to spend on a smaller result. `"balanced"` by default. */
export type Effort = "fast" | "balanced" | "max";

/** Options of `compress`. */
export interface CompressOptions {
  /**
   * The element type of the bytes, as safetensors or z4ai spell it (`"BF16"`, `"bfloat16"`, `"f32"`, …). Elements are
   * split by it into parts that compress better. Without it the input is compressed as plain bytes.
   */
  dtype?: string;
  /** How much time to spend on a smaller result. `"balanced"` by default. */
  effort?: Effort;
}

/** Options of `decompress`. */
export interface DecompressOptions {
  /** The maximum number of bytes that the frame may decode to. 1 GiB by default. A small damaged frame may claim any length. */
  maxBytes?: number;
}

/** Compresses bytes to a frame that `decompress` and z4ai can read. */
export type Compress = (bytes: Uint8Array | ArrayBuffer, options?: CompressOptions) => Promise<Uint8Array<ArrayBuffer>>;

/** Decompresses a frame of any kind that z4ai writes. Containers (`.zstn`) are for `open`. */
export type Decompress = (frame: Uint8Array | ArrayBuffer, options?: DecompressOptions) => Promise<Uint8Array<ArrayBuffer>>;

const LIMIT_BYTES = 2 ** 30;

/** Returns the function `compress` of a platform. */
export function compressor(loadPackModule: () => Promise<PackModule>): Compress {
  return async (bytes, { dtype, effort = "balanced" } = {}) => {
    const input = bytesOf(bytes, "compress");
    const packModule = await loadPackModule();
    return callCore(() => packModule.compress(input, dtype, effort));
  };
}

/** Returns the function `decompress` of a platform. */
export function decompressor(loadPackModule: () => Promise<PackModule>): Decompress {
  return async (frame, { maxBytes = LIMIT_BYTES } = {}) => {
    const input = bytesOf(frame, "decompress");
    const packModule = await loadPackModule();
    return callCore(() => packModule.decompress(input, maxBytes));
  };
}

function bytesOf(bytes: Uint8Array | ArrayBuffer, call: string): Uint8Array {
  if (bytes instanceof Uint8Array) return bytes;
  if (bytes instanceof ArrayBuffer) return new Uint8Array(bytes);
  throw new InvalidInputError(`${call}() takes a Uint8Array or an ArrayBuffer.`);
}
