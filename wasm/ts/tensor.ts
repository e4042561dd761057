/** One tensor: what is known before reading it, and what reading it gives. */

import { toFloat32 } from "./dtype.js";
import type { TensorData } from "./dtype.js";
import { InvalidInputError } from "./errors.js";

/** A range of bytes that belongs to a tensor. */
export interface StoredPart {
  /** Number of the file, from 0; always 0 for a model in one file. */
  readonly file: number;
  /** Position in that file, in bytes. */
  readonly offset: number;
  /** Length, in bytes. */
  readonly length: number;
}

/** A part of every element of a packed tensor, which is coded by itself. */
export interface StoredPlane {
  /** `"sign"`, `"exponent"`, `"mantissa"`; `"byte 0"` and so on, from the least significant one; or `"bytes"` for all of it. */
  readonly name: string;
  /** How it is coded: `"store"`, `"zstd"`, `"zstd blocks"`, `"rANS"`, `"rANS adaptive"` or `"rANS order 1"`. */
  readonly method: string;
  /** Length of the plane itself, in bytes. Seven bits of mantissa take one, so planes may be more than the tensor. */
  readonly byteLength: number;
  /** Length it takes in its file, in bytes. */
  readonly storedLength: number;
}

/** What the file says about a tensor. Known as soon as the model is open. */
export interface TensorInfo {
  /** Its name, as in the header. */
  readonly name: string;
  /** Element type in the spelling of safetensors: `"BF16"`, `"F32"`, `"I64"`, … */
  readonly dtype: string;
  /** Dimensions, outermost first; empty for a scalar. A zTensor of complex128 is F64 with a last dimension of 2. */
  readonly shape: readonly number[];
  /** Length of the tensor itself, in bytes. */
  readonly byteLength: number;
  /** Length it takes in its files, in bytes. */
  readonly storedLength: number;
  /** Where it is stored: one part, or several for a weight that has a `format`. */
  readonly parts: readonly StoredPart[];
  /** How a weight of compressed-tensors is stored, such as `"pack-quantized"`. Absent for tensors in one part. */
  readonly format?: string;
  /**
   * In a delta: what the base's tensor of this name is needed for. With `"copy"` it is this tensor, and nothing
   * is stored here; with `"difference"` the stored bytes say how this one differs. Absent when it is not needed.
   */
  readonly base?: "copy" | "difference";
  /** Name of the tensor with equal bytes whose storage this one shares, if any (tied weights). */
  readonly sharedWith?: string;
}

/** A tensor that has been read. */
export class Tensor {
  /** Its name, as in the header. */
  readonly name: string;
  /** Element type in the spelling of safetensors. */
  readonly dtype: string;
  /** Dimensions, outermost first; empty for a scalar. */
  readonly shape: readonly number[];
  /**
   * The elements in row-major order. Numbers that JavaScript has no array for come as
   * their stored bits: F16 and BF16 in a `Uint16Array`, BOOL, F8, F6 and F4 in a
   * `Uint8Array` (F6 and F4 packed as in the file), C64 as real and imaginary parts by
   * turns in a `Float32Array`.
   */
  readonly data: TensorData;

  constructor(info: TensorInfo, data: TensorData) {
    this.name = info.name;
    this.dtype = info.dtype;
    this.shape = info.shape;
    this.data = data;
  }

  /** The same memory as `data`, as little-endian bytes. */
  get bytes(): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.data.buffer, this.data.byteOffset, this.data.byteLength);
  }

  /**
   * The elements as 32-bit floats, in a new array. Exact for F32, F16, BF16 and the F8 kinds; F64 and wide integers
   * are rounded. BOOL, C64, F6 and F4 throw an `UnsupportedError`, and more floats than there is memory for a `LimitError`.
   *
   * @param begin first element wanted
   * @param end   element to stop before; together with `begin` this allows to convert a large tensor piece by piece
   */
  toFloat32(begin = 0, end = this.data.length): Float32Array<ArrayBuffer> {
    if (!Number.isInteger(begin) || !Number.isInteger(end) || begin < 0 || begin > end || end > this.data.length) {
      throw new InvalidInputError(`Elements ${begin} to ${end} are not a part of ${this.name}, which has ${this.data.length}.`);
    }
    return toFloat32(this.dtype, this.name, this.data, begin, end);
  }
}
