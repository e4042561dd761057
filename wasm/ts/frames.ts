/** Compression of single buffers to frames, and decompression. */

import { checkOptions } from "./known-options.js";
import type { OptionNames } from "./known-options.js";
import { InvalidInputError } from "./errors.js";
import { loadPackModule } from "./pack-module.js";

/** The time that compression may spend on a smaller result. `"balanced"` by default. */
export type Effort = "fast" | "balanced" | "max";

/** Options of `compress` and `compressDelta`. */
export interface CompressOptions {
  /**
   * The element type of the bytes, in the spelling of safetensors or z4ai (`"BF16"`, `"bfloat16"`, `"f32"`, …). It lets
   * the encoder split elements into planes that compress better. Without it the input is compressed as plain bytes.
   */
  dtype?: string;
  /** The time to spend on a smaller result. `"balanced"` by default. */
  effort?: Effort;
}

/** Options of `decompress` and `decompressDelta`. */
export interface DecompressOptions {
  /**
   * The maximum decoded length, in bytes. 1 GiB by default. It limits memory use, since a damaged frame may claim any
   * length.
   */
  maxBytes?: number;
}

const LIMIT_BYTES = 2 ** 30;

const COMPRESS_OPTIONS: OptionNames<CompressOptions> = { dtype: 1, effort: 1 };
const DECOMPRESS_OPTIONS: OptionNames<DecompressOptions> = { maxBytes: 1 };

/**
 * Compresses bytes, such as a tensor, to a frame that `decompress` and z4ai can read. Rejects with an
 * `InvalidInputError` for an unknown dtype or effort, and with a `LimitError` if there is not enough memory.
 */
export async function compress(bytes: Uint8Array | ArrayBuffer, options: CompressOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
  checkOptions("compress()", options, COMPRESS_OPTIONS);
  const { dtype, effort = "balanced" } = options;
  const input = bytesOf(bytes, "compress");
  return (await loadPackModule()).call((core) => core.compress(input, dtype, effort));
}

/**
 * Decompresses a frame of `compress`, of `zstn compress`, or of any type that z4ai writes. Open containers (`.zstn`)
 * with `open` instead. Rejects with a `FormatError` for a damaged frame, with an `UnsupportedError` for a container or
 * a delta, and with a `LimitError` for a frame longer than `maxBytes`.
 */
export async function decompress(frame: Uint8Array | ArrayBuffer, options: DecompressOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
  checkOptions("decompress()", options, DECOMPRESS_OPTIONS);
  const { maxBytes = LIMIT_BYTES } = options;
  const input = bytesOf(frame, "decompress");
  return (await loadPackModule()).call((core) => core.decompress(input, maxBytes));
}

/**
 * Compresses bytes to a frame (`Z4DL`) that stores only their delta from `base`, which must have the same length.
 * `decompressDelta`, `zstn decompress --base` and z4ai can read it, given the same base. Rejects with an
 * `InvalidInputError` if the lengths differ.
 */
export async function compressDelta(
  bytes: Uint8Array | ArrayBuffer,
  base: Uint8Array | ArrayBuffer,
  options: CompressOptions = {},
): Promise<Uint8Array<ArrayBuffer>> {
  checkOptions("compressDelta()", options, COMPRESS_OPTIONS);
  const { dtype, effort = "balanced" } = options;
  const [input, reference] = [bytesOf(bytes, "compressDelta"), bytesOf(base, "compressDelta")];
  return (await loadPackModule()).call((core) => core.compressDelta(input, reference, dtype, effort));
}

/**
 * Decompresses a frame of `compressDelta`, of `zstn compress --base` or of z4ai. Rejects with a `WrongBaseError`, whose
 * `rule` is `"delta.reference"`, if the frame was made against another base than `base`.
 */
export async function decompressDelta(
  frame: Uint8Array | ArrayBuffer,
  base: Uint8Array | ArrayBuffer,
  options: DecompressOptions = {},
): Promise<Uint8Array<ArrayBuffer>> {
  checkOptions("decompressDelta()", options, DECOMPRESS_OPTIONS);
  const { maxBytes = LIMIT_BYTES } = options;
  const [input, reference] = [bytesOf(frame, "decompressDelta"), bytesOf(base, "decompressDelta")];
  return (await loadPackModule()).call((core) => core.decompressDelta(input, reference, maxBytes));
}

function bytesOf(bytes: Uint8Array | ArrayBuffer, call: string): Uint8Array {
  if (bytes instanceof Uint8Array) return bytes;
  if (bytes instanceof ArrayBuffer) return new Uint8Array(bytes);
  throw new InvalidInputError(`${call}() takes a Uint8Array or an ArrayBuffer.`);
}
