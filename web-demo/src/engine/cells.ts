/** A matrix of numbers that is read by rows, as far as anyone looks at it. */

import type { Context } from "./worker.js";

/** Consecutive rows that are in memory, row after row. */
export interface Piece {
  readonly rowBegin: number;
  readonly rowEnd: number;
  readonly numbers: ArrayLike<number>;
}

export interface Cells {
  readonly rows: number;
  /** Of the last row some may be missing, where a long vector was folded. */
  readonly columns: number;
  /** Elements that exist. */
  readonly count: number;
  /** How the element type splits into bits; nothing where it is no float. */
  readonly bits: FloatBits | undefined;
  /** Whether all of it is small enough to be read without being asked for. */
  readonly isSmall: boolean;
  /** Whether it is a difference; how to compare then. */
  readonly compare?: (piece: Piece) => Compared;
  /** Rows that stand for all: all, where it is small. */
  readonly sample: readonly (readonly [number, number])[];
  /** Finds out what can be read alone; the sample is known then. */
  prepare(context: Context): Promise<void>;
  /** Reads rows and hands them out in order, in pieces. */
  visit(rowBegin: number, rowEnd: number, context: Context, use: (piece: Piece) => void, keep?: "sample"): Promise<void>;
  /** The piece with this row, if it is in memory. */
  held(row: number): Piece | undefined;
}

/** Of a float: sign, exponent and the rest. */
export interface FloatBits {
  readonly exponentBits: number;
  readonly bias: number;
  readonly allBits: number;
}

export interface Compared {
  readonly changed: number;
  /** Sum of the squares of what was subtracted. */
  readonly squares: number;
}
