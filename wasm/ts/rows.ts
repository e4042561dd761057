/** Ranges of rows of a tensor: their description, and the plan for reading them. */

import { InvalidInputError } from "./errors.js";
import type { StoredPart, TensorInfo } from "./tensor.js";

/** A range of rows, which are slices along the outermost dimension: the first row, and the row to stop before. */
export type RowRange = readonly [begin: number, end: number];

/** The bytes that reading a tensor, or some of its rows, will fetch. */
export interface ReadPlan {
  /**
   * True if all stored bytes of the tensor are fetched. Also true for a range of rows of a tensor that is not stored in
   * blocks.
   */
  readonly whole: boolean;
  /** The number of bytes to fetch, excluding the bytes of a delta's base. */
  readonly bytes: number;
  /** The ranges to fetch. */
  readonly parts: readonly StoredPart[];
}

/**
 * Returns the description of a range of rows, as a tensor of its own. Throws an `InvalidInputError` if the tensor does
 * not have these rows.
 */
export function rowsInfo(info: TensorInfo, rows: RowRange): TensorInfo {
  if (!Array.isArray(rows) || rows.length !== 2) throw new InvalidInputError(`\`rows\` must be a pair [begin, end], not ${String(rows)}.`);
  const [begin, end] = rows;
  const [count, ...rest] = info.shape;
  if (count === undefined) throw new InvalidInputError(`${info.name} is a scalar and has no rows.`);
  if (!Number.isInteger(begin) || !Number.isInteger(end) || begin < 0 || begin > end || end > count) {
    throw new InvalidInputError(`Rows ${begin} to ${end} are out of range: ${info.name} has ${count} rows.`);
  }
  return { ...info, shape: [end - begin, ...rest], byteLength: count === 0 ? 0 : (info.byteLength / count) * (end - begin) };
}
