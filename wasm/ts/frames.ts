/** Single frames: one buffer made smaller, and back. */

import type { Coder } from "./coder.js";
import { InvalidInputError } from "./errors.js";
import { guarded } from "./rejection.js";

/** Time against space: `"balanced"` unless said otherwise. */
export type Effort = "fast" | "balanced" | "max";

/** What `compress` may be given besides the bytes. */
export interface CompressOptions {
  /**
   * What the bytes are, in the spelling of safetensors or of z4ai (`"BF16"`, `"bfloat16"`, `"f32"`, …), which is how their
   * parts are told apart. Without it they are just bytes.
   */
  dtype?: string;
  /** Time against size; `"balanced"` unless said otherwise. */
  effort?: Effort;
}

/** What `decompress` may be given besides the frame. */
export interface DecompressOptions {
  /** Most bytes the frame may decode to: 1 GiB unless said otherwise. A small damaged frame may promise a lot. */
  limitBytes?: number;
}

/** Makes a frame that z4ai and `decompress` take back. */
export type Compress = (bytes: Uint8Array | ArrayBuffer, options?: CompressOptions) => Promise<Uint8Array<ArrayBuffer>>;

/** The bytes of one frame of any kind z4ai writes. Containers (`.zstn`) are for `open`. */
export type Decompress = (frame: Uint8Array | ArrayBuffer, options?: DecompressOptions) => Promise<Uint8Array<ArrayBuffer>>;

const LIMIT_BYTES = 2 ** 30;

/** The function `compress` of one platform. */
export function compressor(loadCoder: () => Promise<Coder>): Compress {
  return async (bytes, { dtype, effort = "balanced" } = {}) => {
    const input = bytesOf(bytes, "compress");
    const coder = await loadCoder();
    return guarded(() => coder.compress(input, dtype, effort));
  };
}

/** The function `decompress` of one platform. */
export function decompressor(loadCoder: () => Promise<Coder>): Decompress {
  return async (frame, { limitBytes = LIMIT_BYTES } = {}) => {
    const input = bytesOf(frame, "decompress");
    const coder = await loadCoder();
    return guarded(() => coder.decompress(input, limitBytes));
  };
}

function bytesOf(bytes: Uint8Array | ArrayBuffer, call: string): Uint8Array {
  if (bytes instanceof Uint8Array) return bytes;
  if (bytes instanceof ArrayBuffer) return new Uint8Array(bytes);
  throw new InvalidInputError(`${call}() wants a Uint8Array or an ArrayBuffer.`);
}
