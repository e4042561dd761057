/** The interface of matrices that are read by rows, on demand. */

import type { StoredFigures } from "./bands.js";
import type { Context } from "./context.js";

/** Consecutive rows in memory, in row-major order. */
export interface RowBlock {
  readonly rowBegin: number;
  readonly rowEnd: number;
  readonly numbers: ArrayLike<number>;
}

export interface MatrixReader {
  readonly rows: number;
  /** The number of columns; 1 for a vector. */
  readonly columns: number;
  /** The number of elements. */
  readonly count: number;
  /** The bit layout of the element type; absent if it is not a float. */
  readonly bits: FloatBits | undefined;
  /** True if the matrix is small enough to be read as a whole without asking the user. */
  readonly isSmall: boolean;
  /** Compares the two sides of a block. Present only if the matrix is a difference. */
  readonly compare?: (block: RowBlock) => Compared;
  /** The figures that were stored with the tensor, available after `prepare`. */
  readonly stored?: StoredFigures | undefined;
  /** The rows of a representative sample, as ranges [begin, end). All rows of a small matrix; empty if a large one can only be read as a whole. */
  readonly sample: readonly (readonly [number, number])[];
  /** The number of bytes that reading all rows of a slice fetches, available after `prepare`; `undefined` if that is unknown. */
  readonly costBytes?: number | undefined;
  /** Finds out which rows can be read without fetching the whole tensor, and sets `sample` and `stored` accordingly. Call it before reading either. */
  prepare(context: Context): Promise<void>;
  /** Reads rows and passes them to `use` in blocks, in order. With `keep`, rows of the sample are retained in memory. */
  readRows(rowBegin: number, rowEnd: number, context: Context, use: (block: RowBlock) => void, keep?: "sample"): Promise<void>;
  /** Returns the block that contains this row, if it is in memory. */
  cached(row: number): RowBlock | undefined;
  /** Returns the first row of a range that is in memory; `end` if there is none. */
  nextCached(begin: number, end: number): number;
}

/** The bit layout of a float. */
export interface FloatBits {
  readonly exponentBits: number;
  readonly bias: number;
  readonly allBits: number;
}

export interface Compared {
  readonly changed: number;
  /**
   * The sum of the squares of the right side's values, which are the ones that are subtracted. `skipped` is the number
   * of pairs that the sum leaves out because one value, or the difference, is not finite.
   */
  readonly squares: number;
  readonly skipped: number;
}
