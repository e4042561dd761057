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
  /** 1 for a vector. */
  readonly columns: number;
  /** The number of elements. */
  readonly count: number;
  /** The bit layout of the element type; absent if it is not a float. */
  readonly bits: FloatBits | undefined;
  /** Whether the matrix is small enough to be read whole without asking. */
  readonly isSmall: boolean;
  /** Compares the two sides of a block. Present if the matrix is a difference. */
  readonly compare?: (block: RowBlock) => Compared;
  /** Figures that were stored with the tensor, known after `prepare`. */
  readonly stored?: StoredFigures | undefined;
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
  /** Sum of the squares of the subtracted values, and the number of pairs that it leaves out because one of them, or their difference, is not finite. */
  readonly squares: number;
  readonly skipped: number;
}
