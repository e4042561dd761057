/** The 22 element types of safetensors: the typed array of each, and its conversion to 32-bit floats. */

import { LimitError, UnsupportedError } from "./errors.js";
import { SMALL_FLOAT_DTYPES, bfloat16ToFloat32, float16ToFloat32, smallFloatCount, smallFloatToFloat32, toFloat16Bits } from "./float.js";
import type { SmallFloatDtype } from "./float.js";

/** The typed array for each element type. A type that JavaScript has no array for is represented by its stored bits. */
export interface DtypeArrays {
  /** 64-bit floats. */
  F64: Float64Array<ArrayBuffer>;
  /** 32-bit floats. */
  F32: Float32Array<ArrayBuffer>;
  /** The bits of 16-bit floats (IEEE 754). */
  F16: Uint16Array<ArrayBuffer>;
  /** The bits of bfloat16. */
  BF16: Uint16Array<ArrayBuffer>;
  /** 64-bit integers. */
  I64: BigInt64Array<ArrayBuffer>;
  /** 32-bit integers. */
  I32: Int32Array<ArrayBuffer>;
  /** 16-bit integers. */
  I16: Int16Array<ArrayBuffer>;
  /** 8-bit integers. */
  I8: Int8Array<ArrayBuffer>;
  /** Unsigned 64-bit integers. */
  U64: BigUint64Array<ArrayBuffer>;
  /** Unsigned 32-bit integers. */
  U32: Uint32Array<ArrayBuffer>;
  /** Unsigned 16-bit integers. */
  U16: Uint16Array<ArrayBuffer>;
  /** Unsigned 8-bit integers. */
  U8: Uint8Array<ArrayBuffer>;
  /** The bits of 8-bit floats (OCP E4M3). */
  F8_E4M3: Uint8Array<ArrayBuffer>;
  /** The bits of 8-bit floats (OCP E5M2). */
  F8_E5M2: Uint8Array<ArrayBuffer>;
  /** The bits of 8-bit scales (OCP E8M0). */
  F8_E8M0: Uint8Array<ArrayBuffer>;
  /** The bits of 8-bit floats (E4M3FNUZ). */
  F8_E4M3FNUZ: Uint8Array<ArrayBuffer>;
  /** The bits of 8-bit floats (E5M2FNUZ). */
  F8_E5M2FNUZ: Uint8Array<ArrayBuffer>;
  /** Complex numbers of two 32-bit floats: alternating real and imaginary parts. */
  C64: Float32Array<ArrayBuffer>;
  /** Booleans, one byte each: 0 or 1. */
  BOOL: Uint8Array<ArrayBuffer>;
  /** 6-bit floats, packed as in the file. */
  F6_E2M3: Uint8Array<ArrayBuffer>;
  /** 6-bit floats, packed as in the file. */
  F6_E3M2: Uint8Array<ArrayBuffer>;
  /** 4-bit floats, packed as in the file. */
  F4: Uint8Array<ArrayBuffer>;
}

/** An element type, as safetensors spells it. */
export type Dtype = keyof DtypeArrays;

/** The union of all types that `tensor.data` can have. */
export type TensorData = DtypeArrays[Dtype];

interface ArrayType {
  new (buffer: ArrayBuffer, byteOffset: number, length: number): TensorData;
  readonly BYTES_PER_ELEMENT: number;
}

type ToFloat32 = (data: TensorData, begin: number, out: Float32Array) => void;

interface DtypeEntry {
  array: ArrayType;
  /** By default, each array element is a number. `null` if this version cannot convert the elements. */
  toFloat32?: ToFloat32 | null;
}

const numbers: ToFloat32 = (data, begin, out) => {
  for (let i = 0; i < out.length; i++) out[i] = Number(data[begin + i]!);
};

const smallFloat = (dtype: SmallFloatDtype): readonly [SmallFloatDtype, DtypeEntry] => [
  dtype,
  { array: Uint8Array, toFloat32: (data, begin, out) => smallFloatToFloat32(dtype, data as Uint8Array, begin, out) },
];

const DTYPES: Readonly<Record<Dtype, DtypeEntry>> = {
  F64: { array: Float64Array },
  F32: { array: Float32Array, toFloat32: (data, begin, out) => out.set(data.subarray(begin, begin + out.length) as Float32Array) },
  F16: { array: Uint16Array, toFloat32: (data, begin, out) => float16ToFloat32(data as Uint16Array, begin, out) },
  BF16: { array: Uint16Array, toFloat32: (data, begin, out) => bfloat16ToFloat32(data as Uint16Array, begin, out) },
  I64: { array: BigInt64Array },
  I32: { array: Int32Array },
  I16: { array: Int16Array },
  I8: { array: Int8Array },
  U64: { array: BigUint64Array },
  U32: { array: Uint32Array },
  U16: { array: Uint16Array },
  U8: { array: Uint8Array },
  BOOL: { array: Uint8Array },
  // Complex numbers are returned as stored: as alternating real and imaginary parts.
  C64: { array: Float32Array, toFloat32: null },
  ...(Object.fromEntries(SMALL_FLOAT_DTYPES.map(smallFloat)) as Record<SmallFloatDtype, DtypeEntry>),
};

function entryOf(name: string, tensor: string): DtypeEntry {
  const dtype = Object.hasOwn(DTYPES, name) ? DTYPES[name as Dtype] : undefined;
  if (!dtype) throw new UnsupportedError(`The tensor ${tensor} has the dtype ${name}, which this version does not know.`, { tensor });
  return dtype;
}

/**
 * Returns the element size of the dtype's typed array, in bytes. The array must be aligned to this size. Throws an
 * `UnsupportedError` for an unknown dtype.
 */
export function bytesPerElement(dtypeName: string, tensor: string): number {
  return entryOf(dtypeName, tensor).array.BYTES_PER_ELEMENT;
}

/** Returns a typed array over `bytes`. The bytes are copied only if they are not aligned for it. */
export function typedArray(dtypeName: string, tensor: string, bytes: Uint8Array<ArrayBuffer>): TensorData {
  const { array } = entryOf(dtypeName, tensor);
  const aligned = bytes.byteOffset % array.BYTES_PER_ELEMENT === 0 ? bytes : bytes.slice();
  return new array(aligned.buffer, aligned.byteOffset, aligned.byteLength / array.BYTES_PER_ELEMENT);
}

/** Returns the number of elements in `data`; of complex numbers, the number of their parts. */
export function elementCount(dtype: Dtype, { length }: TensorData): number {
  return (SMALL_FLOAT_DTYPES as readonly Dtype[]).includes(dtype) ? smallFloatCount(dtype as SmallFloatDtype, length) : length;
}

/**
 * Returns elements `begin` to `end` (exclusive) of `data` as 32-bit floats in a new array. Throws an `UnsupportedError`
 * for a dtype that cannot be converted, and a `LimitError` if there is not enough memory.
 */
export function toFloat32(dtypeName: string, tensor: string, data: TensorData, begin: number, end: number): Float32Array<ArrayBuffer> {
  const { toFloat32: convert = numbers } = entryOf(dtypeName, tensor);
  if (!convert) {
    throw new UnsupportedError(
      `This version cannot convert ${dtypeName} to 32-bit floats (tensor ${tensor}). Its parts are in \`data\`.`,
      { tensor },
    );
  }
  const out = allocate(Float32Array, end - begin, tensor);
  convert(data, begin, out);
  return out;
}

function allocate<T>(type: new (length: number) => T, length: number, tensor: string): T {
  try {
    return new type(length);
  } catch (cause) {
    throw new LimitError(`There is no memory for ${length} numbers at once; convert ${tensor} in parts, with (begin, end).`, { tensor }, { cause });
  }
}

/** The type of an array of 16-bit floats, for TypeScript libraries that do not declare `Float16Array`. */
export interface HalfArray extends ArrayBufferView<ArrayBuffer> {
  /** The number of elements. */
  readonly length: number;
  /** The elements. */
  readonly [index: number]: number;
}

/** The result of `toFloat16`: a `Float16Array`, or in runtimes without one a `Uint16Array` with the bits of its elements. */
export type Float16Data =
  | Uint16Array<ArrayBuffer>
  | (typeof globalThis extends {
      /** Declared by the libraries of newer TypeScript versions. */
      Float16Array: {
        /** The type of its instances. */
        readonly prototype: infer Half;
      };
    }
      ? Half
      : HalfArray);

/** The number of elements that are converted through 32-bit floats at a time. */
const PIECE = 1 << 16;

/** Returns elements `begin` to `end` (exclusive) of `data` as 16-bit floats in a new array. Throws like `toFloat32`. */
export function toFloat16(dtype: string, tensor: string, data: TensorData, begin: number, end: number): Float16Data {
  const bits = allocate(Uint16Array, end - begin, tensor);
  if (dtype === "F16") bits.set(data.subarray(begin, end) as Uint16Array);
  else {
    let at = begin;
    // The body runs at least once, so that a type that cannot be converted throws even for an empty range.
    do {
      const stop = Math.min(at + PIECE, end);
      // F64 is converted directly: through 32-bit floats it would be rounded twice.
      toFloat16Bits(dtype === "F64" ? (data.subarray(at, stop) as Float64Array) : toFloat32(dtype, tensor, data, at, stop), bits.subarray(at - begin, stop - begin));
      at += PIECE;
    } while (at < end);
  }
  const { Float16Array: Half } = globalThis as { Float16Array?: new (buffer: ArrayBuffer) => HalfArray };
  return (Half ? new Half(bits.buffer) : bits) as Float16Data;
}

/** All supported dtypes, in the order of the table `DTYPES`. */
export const DTYPE_NAMES = /* @__PURE__ */ Object.keys(DTYPES) as readonly Dtype[];
