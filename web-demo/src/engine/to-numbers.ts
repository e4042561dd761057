/** Converts tensor elements to numbers. */

import type { Tensor } from "zstn";
import type { FloatBits } from "./matrix-reader.js";

const FLOATS: Readonly<Record<string, FloatBits>> = {
  F64: { exponentBits: 11, bias: 1023, allBits: 64 },
  F32: { exponentBits: 8, bias: 127, allBits: 32 },
  F16: { exponentBits: 5, bias: 15, allBits: 16 },
  BF16: { exponentBits: 8, bias: 127, allBits: 16 },
  F8_E4M3: { exponentBits: 4, bias: 7, allBits: 8 },
  F8_E5M2: { exponentBits: 5, bias: 15, allBits: 8 },
  F8_E4M3FNUZ: { exponentBits: 4, bias: 8, allBits: 8 },
  F8_E5M2FNUZ: { exponentBits: 5, bias: 16, allBits: 8 },
  F6_E2M3: { exponentBits: 2, bias: 1, allBits: 6 },
  F6_E3M2: { exponentBits: 3, bias: 3, allBits: 6 },
  F4: { exponentBits: 2, bias: 1, allBits: 4 },
};

export const floatBits = (dtype: string): FloatBits | undefined => (Object.hasOwn(FLOATS, dtype) ? FLOATS[dtype] : undefined);

/** Returns whether the elements of a dtype are shorter than a byte and share bytes. */
export const isPacked = (dtype: string): boolean => /^F[46](_|$)/.test(dtype);

/** Returns all elements as numbers; C64 as alternating real and imaginary parts. */
export function toNumbers(tensor: Tensor): ArrayLike<number> {
  const { data, dtype } = tensor;
  if (data instanceof BigInt64Array || data instanceof BigUint64Array) return Float64Array.from(data, Number);
  return /^(F16|BF16|F8_)/.test(dtype) || isPacked(dtype) ? tensor.toFloat32() : data;
}

/** Returns the bits of each element as integers, in two words for 64-bit elements. Elements with equal bits are equal. */
export function toBits(tensor: Tensor): ArrayLike<number> {
  const { data, dtype } = tensor;
  if (isPacked(dtype)) return unpacked(dtype, tensor.bytes);
  return data.BYTES_PER_ELEMENT >= 4 ? new Uint32Array(data.buffer, data.byteOffset, data.byteLength / 4) : (data as Exclude<typeof data, BigInt64Array | BigUint64Array>);
}

/** Returns the number of words that `toBits` returns for each value. */
export const wordsPerValue = (dtype: string): number => (/^[FIU]64$/.test(dtype) ? 2 : 1);

/** Unpacks elements shorter than a byte. The first element has the lowest bits. */
function unpacked(dtype: string, bytes: Uint8Array): Uint8Array {
  const { allBits } = FLOATS[dtype]!;
  const codes = new Uint8Array(Math.floor((8 * bytes.length) / allBits));
  const mask = (1 << allBits) - 1;
  for (let i = 0; i < codes.length; i++) {
    const bit = i * allBits;
    const pair = bytes[bit >> 3]! | ((bytes[(bit >> 3) + 1] ?? 0) << 8);
    codes[i] = (pair >> (bit & 7)) & mask;
  }
  return codes;
}
