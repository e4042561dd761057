/** Tensors: their descriptions and their data. */

import { elementCount, toFloat16, toFloat32 } from "./dtype.js";
import type { Dtype, DtypeArrays, Float16Data, TensorData } from "./dtype.js";
import { InvalidInputError } from "./errors.js";

/** A byte range in a file that holds a tensor or a part of one. */
export interface StoredPart {
  /** Index of the file, counted from 0; always 0 for a model in one file. */
  readonly file: number;
  /** Position of the range in that file, in bytes. */
  readonly offset: number;
  /** Length of the range, in bytes. */
  readonly length: number;
}

/** The same bits of all elements of a packed tensor, such as their exponents, which are coded as a unit. */
export interface StoredPlane {
  /** `"sign"`, `"exponent"` or `"mantissa"`; `"byte 0"` and so on, from the least significant byte; or `"bytes"` for whole elements. */
  readonly name: string;
  /** The coding: `"store"`, `"zstd"`, `"zstd blocks"`, `"rANS"`, `"rANS adaptive"` or `"rANS order 1"`. */
  readonly method: string;
  /**
   * Length of the decoded plane, in bytes. A plane of seven mantissa bits takes one byte for each element, so all
   * planes together may be longer than the tensor.
   */
  readonly byteLength: number;
  /** Length of the coded plane, in bytes. */
  readonly storedLength: number;
}

/** The description of a tensor, available as soon as the model is open. */
export interface TensorInfo {
  /** Name of the tensor, as in the header. */
  readonly name: string;
  /** The element type, as safetensors spells it: `"BF16"`, `"F32"`, `"I64"`, … */
  readonly dtype: Dtype;
  /**
   * The dimensions, outermost first; empty for a scalar. A zTensor tensor of complex128 has dtype F64 and an additional
   * last dimension of 2.
   */
  readonly shape: readonly number[];
  /** Length of the decoded tensor, in bytes. */
  readonly byteLength: number;
  /**
   * Length of the stored bytes, in bytes. A tensor that is only a part of a stored range, such as a view of a larger
   * storage in a packed PyTorch file, has its share of that range, rounded up.
   */
  readonly storedLength: number;
  /** The ranges where the tensor is stored: one part, or several for a weight that has a `format`. Tensors may share ranges. */
  readonly parts: readonly StoredPart[];
  /**
   * The format in which quantised values are stored: a compressed-tensors format such as `"pack-quantized"`, or an
   * element type of GGUF such as `"Q4_K"`. Absent for other tensors.
   */
  readonly format?: string;
  /**
   * Length of quantised values before packing, in bytes: their blocks, or all parts of a weight, which are shorter than
   * `byteLength`. Present if there is a `format`.
   */
  readonly originalLength?: number;
  /**
   * In a delta, how the tensor uses a tensor of the base. `"copy"`: the two are equal, and nothing is
   * stored. `"delta"`: the stored bytes encode the delta between the two. Absent if the tensor does not use the
   * base.
   */
  readonly base?: "copy" | "delta";
  /** Name of the tensor with equal bytes whose stored bytes this one shares (tied weights). Absent if there is none. */
  readonly aliasOf?: string;
  /**
   * The first 16 bytes of the BLAKE3 of the decoded tensor, in hexadecimal digits, as the file records them. Tensors with
   * equal dtype, shape and digest are identical if the files are right; `verify: "full"` compares digests when tensors are
   * read. Packed files and deltas have digests. Absent in other files.
   */
  readonly digest?: string;
}

/** Returns the number of elements of each dtype. */
export function countElements(tensors: readonly TensorInfo[]): Map<Dtype, number> {
  const counts = new Map<Dtype, number>();
  for (const { dtype, shape } of tensors) counts.set(dtype, shape.reduce((product, size) => product * size, 1) + (counts.get(dtype) ?? 0));
  return counts;
}

/** A tensor with its data. Comparing its `dtype` narrows the type of `data`. */
export type Tensor = { [D in Dtype]: TypedTensor<D> }[Dtype];

/** Creates a tensor of the dtype in `info`. */
export function createTensor(info: TensorInfo, data: TensorData): Tensor {
  return new TypedTensor(info.dtype, info, data) as Tensor;
}

/** A tensor of one dtype with its data. */
export class TypedTensor<D extends Dtype> {
  /** Name of the tensor, as in the header. */
  readonly name: string;
  /** The element type, as safetensors spells it. */
  readonly dtype: D;
  /** The dimensions, outermost first; empty for a scalar. */
  readonly shape: readonly number[];
  /**
   * The elements in row-major order. Types that JavaScript has no array for are represented by their stored bits: F16
   * and BF16 in a `Uint16Array`; BOOL, F8, F6 and F4 in a `Uint8Array` (F6 and F4 packed as in the file). C64 is a
   * `Float32Array` of alternating real and imaginary parts.
   */
  readonly data: DtypeArrays[D];

  /** @internal */
  constructor(dtype: D, info: Pick<TensorInfo, "name" | "shape">, data: DtypeArrays[D]) {
    this.name = info.name;
    this.dtype = dtype;
    this.shape = info.shape;
    this.data = data;
  }

  /** The memory of `data` as little-endian bytes, without copying. */
  get bytes(): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.data.buffer, this.data.byteOffset, this.data.byteLength);
  }

  /**
   * Returns the elements as 32-bit floats in a new array. The conversion is exact for all floats of at most 32 bits;
   * F64 and wide integers are rounded, and BOOL becomes 0 and 1. Elements of F6 and F4 are unpacked, without the scales
   * that other tensors may have for them (`blockScaled`). Throws an `UnsupportedError` for C64, a `LimitError` if there is
   * not enough memory, and an `InvalidInputError` for a range outside the tensor.
   *
   * @param begin the first element to convert
   * @param end   the element to stop before; with `begin`, it converts a large tensor in chunks
   */
  toFloat32(begin = 0, end?: number): Float32Array<ArrayBuffer> {
    return toFloat32(this.dtype, this.name, this.data, begin, this.#endOf(begin, end));
  }

  /**
   * Returns the elements as 16-bit floats in a new array: a `Float16Array`, or in runtimes without one a `Uint16Array`
   * with their bits. The conversion is exact for F16 and shorter floats except F8_E8M0. Other values are rounded to the
   * nearest, ties to even; they become infinite from 65 520 on, and lose digits below 2⁻¹⁴. NaN stays NaN. Throws like
   * `toFloat32`.
   *
   * @param begin the first element to convert
   * @param end   the element to stop before; with `begin`, it converts a large tensor in chunks
   */
  toFloat16(begin = 0, end?: number): Float16Data {
    return toFloat16(this.dtype, this.name, this.data, begin, this.#endOf(begin, end));
  }

  /** Checks a range, and returns its end: by default the number of elements. */
  #endOf(begin: number, asked: number | undefined): number {
    const count = elementCount(this.dtype, this.data);
    const end = asked ?? count;
    if (!Number.isInteger(begin) || !Number.isInteger(end) || begin < 0 || begin > end || end > count) {
      throw new InvalidInputError(`Elements ${begin} to ${end} are out of range: ${this.name} has ${count} elements.`);
    }
    return end;
  }
}
