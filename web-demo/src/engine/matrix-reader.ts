/** The interface of matrices that are read by rows, on demand. */

import type { Context } from "./context.js";

/** Consecutive rows in memory, in row-major order. */
export interface RowBlock {
  readonly rowBegin: number;
  readonly rowEnd: number;
  readonly numbers: ArrayLike<number>;
}

export interface MatrixReader {
  readonly rows: number;
  /** The last row may be shorter, where a long vector was folded. */
  readonly columns: number;
  /** The number of elements. */
  readonly count: number;
  /** The bit layout of the element type; absent if it is not a float. */
  readonly bits: FloatBits | undefined;
  /** Whether the matrix is small enough to be read whole without asking. */
  readonly isSmall: boolean;
  /** Compares the two sides of a block. Present if the matrix is a difference. */
  readonly compare?: (block: RowBlock) => Compared;
  /** The row ranges of a representative sample; all rows of a small matrix. */
  readonly sample: readonly (readonly [number, number])[];
  /** Finds out what can be read separately, which determines the sample. */
  prepare(context: Context): Promise<void>;
  /** Reads rows and passes them to `use` in order, in blocks. */
  readRows(rowBegin: number, rowEnd: number, context: Context, use: (block: RowBlock) => void, keep?: "sample"): Promise<void>;
  /** Returns the block with this row, if it is in memory. */
  cached(row: number): RowBlock | undefined;
}

/** The bit layout of a float. */
export interface FloatBits {
  readonly exponentBits: number;
  readonly bias: number;
  readonly allBits: number;
}

export interface Compared {
  readonly changed: number;
  /** Sum of the squares of the subtracted values. */
  readonly squares: number;
}
