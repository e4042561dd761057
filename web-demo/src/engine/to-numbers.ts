/** Converting elements to numbers. */

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
};

export const floatBits = (dtype: string): FloatBits | undefined => (Object.hasOwn(FLOATS, dtype) ? FLOATS[dtype] : undefined);

/** Returns all elements as numbers: C64 as alternating real and imaginary parts, F4 and F6 as their stored bytes. */
export function toNumbers(tensor: Tensor): ArrayLike<number> {
  const { data, dtype } = tensor;
  if (data instanceof BigInt64Array || data instanceof BigUint64Array) return Float64Array.from(data, Number);
  return /^(F16|BF16|F8_)/.test(dtype) ? tensor.toFloat32() : data;
}
