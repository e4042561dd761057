/** The numbers of a tensor, as they are stored or decoded from several tensors. */

import { readBlockScaled } from "zstn";
import type { AxisSelection, BlockScaled, Model, ReadPlan, RowRange, TensorInfo, TensorOptions } from "zstn";
import { storedFigures } from "./bands.js";
import type { StoredFigures } from "./bands.js";
import type { Context } from "./context.js";
import type { Slice } from "./protocol.js";
import { axesOf, sliceInfo } from "./slice.js";
import { toNumbers } from "./to-numbers.js";

export type Numbers = ArrayLike<number> & { subarray(begin: number, end: number): ArrayLike<number>; set(numbers: ArrayLike<number>, offset: number): void };

export interface TensorSource {
  /** The description of the numbers, whose shape and dtype may differ from those of the stored tensors. */
  readonly info: TensorInfo;
  /** The tensor that the numbers are a slice of. */
  readonly whole?: TensorInfo;
  /** Reads all numbers, or slices of the outermost dimension. */
  read(rows: RowRange | undefined, context: Context): Promise<Numbers>;
  plan(rows: RowRange, signal: AbortSignal): Promise<Pick<ReadPlan, "whole" | "bytes">>;
  /** Returns the stored figures of the tensor as a matrix with `columns` columns, if there are any. */
  stored(columns: number, signal: AbortSignal): Promise<StoredFigures | undefined>;
}

/** Returns the elements of a tensor as they are stored. */
export function storedSource(model: Model, info: TensorInfo): TensorSource {
  return {
    info,
    read: async (rows, { signal, onStep }) => toNumbers(await model.tensor(info.name, { signal, onProgress: onStep, ...(rows && { rows }) })) as Numbers,
    plan: (rows, signal) => model.plan(info.name, { rows, signal }),
    stored: (columns, signal) => storedFigures(model, info, columns, signal),
  };
}

/** Returns the elements of a slice of a tensor, as they are stored. The stored figures are those of the whole tensor. */
export function slicedSource(model: Model, whole: TensorInfo, slice: Slice): TensorSource {
  const axes = axesOf(slice);
  const isTransposed = axes !== undefined && axes.columns < axes.rows;
  return {
    info: sliceInfo(whole, slice),
    whole,
    async read(rows, { signal, onStep }) {
      const tensor = await model.tensor(whole.name, { signal, onProgress: onStep, ...partOf(slice, rows) });
      const numbers = toNumbers(tensor) as Numbers;
      return isTransposed ? transposed(numbers, tensor.shape[0]!) : numbers;
    },
    plan: (rows, signal) => model.plan(whole.name, { ...partOf(slice, rows), signal }),
    stored: async () => undefined,
  };
}

/** Returns the option that selects rows of a slice, all of them without `rows`. */
function partOf(slice: Slice, rows: RowRange | undefined): Pick<TensorOptions, "select"> {
  const axes = axesOf(slice);
  // Without an axis for them, rows are indices of the first axis that has no index.
  const rowAxis = axes ? axes.rows : slice.includes(null) ? slice.indexOf(null) : slice.length;
  const select: AxisSelection[] = slice.map((entry) => (typeof entry === "number" ? entry : null));
  if (rows) select[rowAxis] = rows;
  return { select };
}

/** Returns the transpose of a matrix with `rows` rows. */
function transposed(numbers: Numbers, rows: number): Numbers {
  const columns = numbers.length / rows;
  const result = new (numbers.constructor as new (length: number) => Numbers & { [index: number]: number })(numbers.length);
  for (let row = 0; row < rows; row++) for (let column = 0; column < columns; column++) result[column * rows + row] = numbers[row * columns + column]!;
  return result;
}

/** Returns the values of a weight, decoded from its elements and scales. */
export function decodedSource(model: Model, weight: BlockScaled): TensorSource {
  const parts = [weight.elements, weight.scales];
  return {
    info: decodedInfo(model, weight),
    read: (rows, { signal }) => readBlockScaled(model, weight, { signal, ...(rows && { rows }) }),
    plan: async (rows, signal) => {
      const plans = await Promise.all(parts.map((name) => model.plan(name, { rows, signal })));
      return { whole: plans.some(({ whole }) => whole), bytes: plans.reduce((sum, { bytes }) => sum + bytes, 0) };
    },
    stored: async () => undefined,
  };
}

/** Returns the description of the decoded weight. Its length is that of 16-bit values, so that as many of them are read at once. */
export function decodedInfo({ tensors }: Pick<Model, "tensors">, { elements, scales, global, shape, format }: BlockScaled): TensorInfo {
  const parts = [elements, scales, ...(global ? [global.name] : [])].map((name) => tensors.get(name)!);
  const sum = (of: (part: TensorInfo) => number) => parts.reduce((total, part) => total + of(part), 0);
  const count = shape.reduce((product, size) => product * size, 1);
  return {
    name: elements,
    dtype: "F32",
    shape,
    format,
    byteLength: 2 * count,
    storedLength: sum(({ storedLength }) => storedLength),
    originalLength: sum(({ byteLength }) => byteLength),
    parts: parts.flatMap((part) => part.parts),
  };
}
