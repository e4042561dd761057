/** The sums over all tensors of a model that its summary contains. */

import type { TensorInfo } from "zstn";
import { valuesOf } from "../overview/about/parameters.js";
import { isFloat, typeOf } from "../tree/dtype-family.js";
import { isPacked, originalBytesOf, ownBytes } from "../tree/node.js";

/** The sums over the tensors of a dtype or a type of quantised blocks. Tied tensors add no values and no stored bytes. */
export interface TypeSum {
  readonly type: string;
  readonly tensors: number;
  readonly values: number;
  readonly originalBytes: number;
  readonly storedBytes: number;
}

export interface ModelFigures {
  /** The sums by type, largest first. */
  readonly types: readonly TypeSum[];
  /** True if any tensor is stored in another length than before packing. */
  readonly isPacked: boolean;
  /** The tensors that share the bytes of another one; `listed` has the first ones. */
  readonly tied: { readonly tensors: number; readonly savedBytes: number; readonly listed: readonly { readonly name: string; readonly aliasOf: string }[] };
  /** The floating-point tensors with elements and bytes of their own, and the bytes that are read to measure them. */
  readonly floats: { readonly tensors: number; readonly bytes: number };
}

/** The maximum number of tied tensors that are listed. The search finds the rest. */
const MAX_LISTED = 50;

/** Returns whether the page measures a tensor, to check its values. */
export const isMeasured = ({ dtype, shape, aliasOf }: TensorInfo): boolean => isFloat(dtype) && !shape.includes(0) && aliasOf === undefined;

export function figuresOf(tensors: readonly TensorInfo[]): ModelFigures {
  const sums = new Map<string, { -readonly [K in keyof TypeSum]: TypeSum[K] }>();
  const tied = { tensors: 0, savedBytes: 0, listed: [] as { name: string; aliasOf: string }[] };
  const floats = { tensors: 0, bytes: 0 };
  for (const tensor of tensors) {
    const type = typeOf(tensor);
    const { name, aliasOf, storedLength, base, byteLength } = tensor;
    let sum = sums.get(type);
    if (!sum) sums.set(type, (sum = { type, tensors: 0, values: 0, originalBytes: 0, storedBytes: 0 }));
    sum.tensors += 1;
    sum.originalBytes += originalBytesOf(tensor);
    sum.storedBytes += ownBytes(tensor);
    if (aliasOf === undefined) sum.values += valuesOf(tensor);
    else {
      tied.tensors += 1;
      tied.savedBytes += storedLength;
      if (tied.listed.length < MAX_LISTED) tied.listed.push({ name, aliasOf });
    }
    if (!isMeasured(tensor)) continue;
    floats.tensors += 1;
    // A tensor of a delta also needs the one in its base, whose stored length is not known here.
    floats.bytes += base === undefined ? ownBytes(tensor) : byteLength;
  }
  const types = [...sums.values()].sort((a, b) => b.originalBytes - a.originalBytes);
  return { types, isPacked: tensors.some(isPacked), tied, floats };
}
