/** Describes the levels of a tensor's values, from the rows that are in memory. Reads nothing. */

import type { RowBlock } from "../matrix-reader.js";
import { DistinctValues } from "./distinct-values.js";
import { findGrid } from "./find-grid.js";
import { precisionOf } from "./precision.js";
import type { Levels } from "./report.js";

/** The maximum number of values among which distinct ones are counted. */
const COUNTED_VALUES = 1 << 23;
/** The maximum number of values that are compared with grids, in all and of one row. */
const CHECKED_VALUES = 1 << 17;
const ROW_VALUES = 1 << 15;

/** The dtypes with more than 8 bits, whose values may come from a shorter code. */
const CAN_HIDE_CODES = /^(F16|BF16|F32|F64)$/;

export interface InMemory {
  /** The rows in memory. No two blocks have a row in common. */
  readonly blocks: readonly RowBlock[];
  /** The number of columns; 1 for a vector, whose values are regarded as one row. */
  readonly columns: number;
  /** The number of elements of the tensor. */
  readonly total: number;
  readonly dtype: string;
}

export function levelsOf({ blocks, columns, total, dtype }: InMemory): Levels {
  const values = new DistinctValues();
  let left = COUNTED_VALUES;
  for (const { numbers } of blocks) {
    values.add(numbers, Math.min(left, numbers.length));
    left -= Math.min(left, numbers.length);
  }
  const { counted, nonFinite, distinct, min, max, significantBits } = values;
  const rows = CAN_HIDE_CODES.test(dtype) ? checkedRows(blocks, columns) : [];
  const { perUnit, grid } = findGrid(rows.map((row) => row.values), precisionOf(dtype, significantBits));
  const checkedValues = rows.reduce((sum, row) => sum + row.values.length, 0);
  const isRowCut = rows.some(({ isCut }) => isCut);
  return { counted, nonFinite, distinct, min, max, significantBits, total, checkedRows: rows.length, checkedValues, isRowCut, perUnit, ...(grid && { grid }) };
}

interface Row {
  readonly values: Float64Array;
  readonly isCut: boolean;
}

/** Returns the rows to compare with grids, which are spread evenly over those in memory. */
function checkedRows(blocks: readonly RowBlock[], columns: number): Row[] {
  const lengthIn = ({ numbers }: RowBlock) => (columns === 1 ? numbers.length : columns);
  const rowsIn = blocks.map((block) => Math.floor(block.numbers.length / Math.max(1, lengthIn(block))));
  const available = rowsIn.reduce((sum, rows) => sum + rows, 0);
  const longest = blocks.reduce((most, block) => Math.max(most, lengthIn(block)), 1);
  const count = Math.min(available, Math.max(1, Math.floor(CHECKED_VALUES / Math.min(longest, ROW_VALUES))));
  const rows: Row[] = [];
  let before = 0;
  for (const [i, block] of blocks.entries()) {
    const [length, inBlock] = [lengthIn(block), rowsIn[i]!];
    while (rows.length < count) {
      const row = Math.floor((rows.length * available) / count) - before;
      if (row >= inBlock) break;
      const values = new Float64Array(Math.min(length, ROW_VALUES));
      for (let at = 0; at < values.length; at++) values[at] = block.numbers[row * length + at]!;
      rows.push({ values, isCut: length > ROW_VALUES });
    }
    before += inBlock;
  }
  return rows;
}
