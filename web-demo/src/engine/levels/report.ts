/** The result of the search for a grid: how many distinct values there are, and the rule that they follow. */

/** The values that share one scale: a number of neighbours along a row, a row, or the whole tensor. */
export type Unit = number | "row" | "tensor";

/**
 * The levels that the values of a unit are restricted to, up to a scale: multiples of a step (`"uniform"`), multiples of
 * a step from an offset (`"offset"`), the values of a short float or of NF4, or any few values (`"palette"`).
 */
export type GridKind = "uniform" | "offset" | "E2M1" | "NF4" | "FP4" | "E4M3" | "E5M2" | "palette";

export interface Grid {
  readonly kind: GridKind;
  readonly unit: Unit;
  /** The number of units that were checked. All of them fit. */
  readonly units: number;
  /** The number of levels that the widest unit needs, and the number of bits of a code for that many. */
  readonly levels: number;
  readonly bits: number;
  /** The smallest and the largest scale of a unit: the step, or the factor of the levels. Absent for palettes and 8-bit floats. */
  readonly scales?: readonly [number, number];
}

/** The number of distinct finite values in the units of one length. */
export interface UnitCounts {
  readonly unit: Unit;
  readonly units: number;
  readonly median: number;
  readonly max: number;
}

export interface Levels {
  /** The number of finite values among which `distinct` values were counted, and the number of NaN and infinite ones. */
  readonly counted: number;
  readonly nonFinite: number;
  /** The number of distinct values, at most `MAX_DISTINCT + 1`, which means that there are more than `MAX_DISTINCT`. */
  readonly distinct: number;
  readonly min: number;
  readonly max: number;
  /** The largest number of significant bits of a value. */
  readonly significantBits: number;
  /** The number of elements of the tensor. */
  readonly total: number;
  /** The rows whose values were compared with grids, and the number of these values. Both are 0 if no grid was searched. */
  readonly checkedRows: number;
  readonly checkedValues: number;
  /** True if only the beginning of each row was compared. */
  readonly isRowCut: boolean;
  /** The distinct values per row and per group, as far as they were compared with grids. */
  readonly perUnit: readonly UnitCounts[];
  /** The coarsest grid that all checked values lie on; absent if there is none. */
  readonly grid?: Grid;
}

/** The number of distinct values up to which they are counted. */
export const MAX_DISTINCT = 1 << 16;
