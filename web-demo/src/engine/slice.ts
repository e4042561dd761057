/** Slices of tensors of more than two axes: an index for some of the first axes. */

import type { TensorInfo } from "zstn";
import type { Slice } from "./protocol.js";
import { isPacked } from "./to-numbers.js";

/** The most axes of a tensor whose slices can be viewed. */
const MAX_AXES = 5;

/** Returns the number of the first axes for which an index can be chosen: all but the last two, if there are at most five. */
export function sliceAxes({ shape, dtype, byteLength }: TensorInfo): number {
  if (shape.length < 3 || shape.length > MAX_AXES || byteLength === 0) return 0;
  // The slices of packed elements may begin within a byte.
  const matrixBytes = byteLength / shape.slice(0, -2).reduce((product, size) => product * size, 1);
  return isPacked(dtype) && !Number.isInteger(matrixBytes) ? 0 : shape.length - 2;
}

/** Returns the description of a slice, as a tensor of its own; its stored bytes are a share of the tensor's. */
export function sliceInfo(info: TensorInfo, slice: Slice): TensorInfo {
  const shape = info.shape.filter((_, axis) => typeof slice[axis] !== "number");
  const share = shape.reduce((product, size) => product * size, 1) / info.shape.reduce((product, size) => product * size, 1);
  return { ...info, shape, byteLength: Math.round(info.byteLength * share), storedLength: Math.ceil(info.storedLength * share) };
}

/** Returns the slice in the text of a link, such as `3,*`; `undefined` if the tensor has no such slice. */
export function parseSlice(text: string | undefined, info: TensorInfo): Slice | undefined {
  const entries = text?.split(",").map((entry) => (entry === "*" ? null : /^\d+$/.test(entry) ? Number(entry) : undefined));
  if (!entries || entries.length > sliceAxes(info)) return undefined;
  if (entries.some((entry, axis) => entry === undefined || (entry !== null && entry >= info.shape[axis]!))) return undefined;
  return isSliced(entries as Slice) ? (entries as Slice) : undefined;
}

/** Returns the text of a slice for a link; `undefined` for the whole tensor. */
export function sliceText(slice: Slice): string | undefined {
  return isSliced(slice) ? slice.map((index) => index ?? "*").join(",") : undefined;
}

const isSliced = (slice: Slice): boolean => slice.some((index) => index !== null);
