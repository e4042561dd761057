/** The distinct values of one unit: a group, a row, or all rows. */

import { roundingError, spacing } from "./precision.js";
import type { Precision } from "./precision.js";

export interface UnitValues {
  /** The number of finite values other than zero. */
  readonly nonZero: number;
  readonly hasZero: boolean;
  /** The distinct finite values other than zero, in ascending order. */
  readonly distinct: Float64Array;
}

/** Returns the distinct values of `numbers` from `begin` to `end` (exclusive). */
export function unitValues(numbers: ArrayLike<number>, begin: number, end: number): UnitValues {
  const values = new Float64Array(end - begin);
  let [nonZero, hasZero] = [0, false];
  for (let i = begin; i < end; i++) {
    const value = numbers[i]!;
    if (value === 0) hasZero = true;
    else if (value - value === 0) values[nonZero++] = value;
  }
  return { nonZero, hasZero, distinct: sortedSet(values.subarray(0, nonZero)) };
}

/** Returns the union of several units. */
export function union(units: readonly UnitValues[]): UnitValues {
  const all = new Float64Array(units.reduce((sum, { distinct }) => sum + distinct.length, 0));
  let at = 0;
  for (const { distinct } of units) {
    all.set(distinct, at);
    at += distinct.length;
  }
  return { nonZero: units.reduce((sum, { nonZero }) => sum + nonZero, 0), hasZero: units.some(({ hasZero }) => hasZero), distinct: sortedSet(all) };
}

/** Points on one side of an origin: their distances from it, in ascending order, and the error of each distance. */
export interface Points {
  readonly distances: Float64Array;
  readonly errors: Float64Array;
}

/** Returns the distinct magnitudes: distances from zero. */
export function magnitudes({ distinct }: UnitValues, precision: Precision): Points {
  const distances = sortedSet(distinct.map(Math.abs));
  return { distances, errors: distances.map((distance) => roundingError(distance, precision)) };
}

/** The rounding of a 32-bit sum of a multiple and an offset, relative to the largest value. */
const SUM_ERROR = 2 ** -22;

/** Returns the distances of all distinct values, zero included, from the smallest one. */
export function distancesFromLeast({ distinct, hasZero }: UnitValues, precision: Precision): Points {
  const values = hasZero ? sortedSet(Float64Array.of(...distinct, 0)) : distinct;
  const [least = 0] = values;
  const ofSum = SUM_ERROR * Math.max(Math.abs(least), Math.abs(values.at(-1) ?? 0));
  const own = (value: number) => (value === 0 ? 0 : roundingError(value, precision));
  // Multiples may be rounded to the same precision before the offset is added.
  const errors = values.map((value) => 2 * (own(value) + own(least)) + ofSum);
  return { distances: values.subarray(1).map((value) => value - least), errors: errors.subarray(1) };
}

/** Returns the numbers of pairs of neighbouring values, and of pairs with at most one representable value between them. */
export function closePairs({ distinct }: UnitValues, precision: Precision): { readonly pairs: number; readonly close: number } {
  let close = 0;
  for (let i = 1; i < distinct.length; i++) {
    const [low, high] = [distinct[i - 1]!, distinct[i]!];
    if (high - low < 1.5 * spacing(Math.max(Math.abs(low), Math.abs(high)), precision)) close += 1;
  }
  return { pairs: Math.max(0, distinct.length - 1), close };
}

/** Sorts values in place, and returns the part that contains each value once. */
function sortedSet(values: Float64Array): Float64Array {
  values.sort();
  let kept = 0;
  for (let i = 0; i < values.length; i++) if (kept === 0 || values[i] !== values[kept - 1]) values[kept++] = values[i]!;
  return values.subarray(0, kept);
}
