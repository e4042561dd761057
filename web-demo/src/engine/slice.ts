/** Slices of tensors of more than two axes: an index for some axes, and the axes that are the rows and the columns of the view. */

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

/** Returns whether any two axes can be viewed as rows and columns. Single elements of some dtypes cannot be read. */
export function hasAxes(info: TensorInfo): boolean {
  return sliceAxes(info) > 0 && !isPacked(info.dtype) && info.dtype !== "C64";
}

/** Returns the axes that a slice names as rows and columns; `undefined` if it names none. */
export function axesOf(slice: Slice): { readonly rows: number; readonly columns: number } | undefined {
  const [rows, columns] = [slice.indexOf("rows"), slice.indexOf("columns")];
  return rows < 0 ? undefined : { rows, columns };
}

/** Returns the description of a slice, as a tensor of its own; its stored bytes are a share of the tensor's. */
export function sliceInfo(info: TensorInfo, slice: Slice): TensorInfo {
  const axes = axesOf(slice);
  const shape = axes ? [info.shape[axes.rows]!, info.shape[axes.columns]!] : info.shape.filter((_, axis) => typeof slice[axis] !== "number");
  const share = shape.reduce((product, size) => product * size, 1) / info.shape.reduce((product, size) => product * size, 1);
  return { ...info, shape, byteLength: Math.round(info.byteLength * share), storedLength: Math.ceil(info.storedLength * share) };
}

/** The words of a link for entries that are not an index. */
const WORDS = { "*": null, r: "rows", c: "columns" } as const;

/** Returns the slice in the text of a link, such as `3,*` or `c,2,r`; `undefined` if the tensor has no such slice. */
export function parseSlice(text: string | undefined, info: TensorInfo): Slice | undefined {
  const entries = text?.split(",").map((entry) => (Object.hasOwn(WORDS, entry) ? WORDS[entry as keyof typeof WORDS] : /^\d+$/.test(entry) ? Number(entry) : undefined));
  if (!entries || entries.some((entry, axis) => entry === undefined || (typeof entry === "number" && !(entry < info.shape[axis]!)))) return undefined;
  const slice = entries as Slice;
  const named = slice.filter((entry) => typeof entry === "string");
  const isValid = named.length > 0 ? hasAxes(info) && slice.length === info.shape.length && [...named].sort().join() === "columns,rows" && !slice.includes(null) : slice.length <= sliceAxes(info);
  return isValid && isSliced(slice) ? slice : undefined;
}

/** Returns the text of a slice for a link; `undefined` for the whole tensor. */
export function sliceText(slice: Slice): string | undefined {
  return isSliced(slice) ? slice.map((entry) => (entry === null ? "*" : typeof entry === "number" ? entry : entry[0])).join(",") : undefined;
}

const isSliced = (slice: Slice): boolean => slice.some((entry) => entry !== null);
