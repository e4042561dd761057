/** Compares values with the levels of 4-bit formats that are not uniform. */

import { roundingError } from "./precision.js";
import type { Precision } from "./precision.js";
import type { UnitValues } from "./unit-values.js";

export type Codebook = "E2M1" | "NF4" | "FP4";

const bothSigns = (levels: readonly number[]): readonly number[] => [...levels.map((level) => -level).reverse(), ...levels];

/**
 * The levels other than zero, in ascending order. E2M1 is the element of MXFP4 and NVFP4 (OCP microscaling formats,
 * 5.3.3). NF4 has the quantiles of a normal distribution (QLoRA, appendix E), and FP4 is the 4-bit float of bitsandbytes.
 */
export const CODEBOOKS: Readonly<Record<Codebook, readonly number[]>> = {
  E2M1: bothSigns([0.5, 1, 1.5, 2, 3, 4, 6]),
  NF4: [
    -1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334, -0.09105003625154495,
    0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1,
  ],
  FP4: bothSigns([0.0625, 2, 3, 4, 6, 8, 12].map((level) => level / 12)),
};

/** The evidence of one value that fits a level, in bits. The levels take less than a sixteenth of their range, with bfloat16 rounding. */
const BITS_PER_VALUE = 4;
const LUCK_BITS = 3;

export interface CodebookFit {
  readonly scale: number;
  readonly evidence: number;
}

/** Returns the scale with which all values are levels, each a different one; `undefined` if there is none. */
export function fitCodebook({ distinct }: UnitValues, precision: Precision, codebook: Codebook): CodebookFit | undefined {
  const levels = CODEBOOKS[codebook];
  if (distinct.length === 0) return { scale: 0, evidence: 0 };
  if (distinct.length > levels.length) return undefined;
  const errors = distinct.map((value) => roundingError(value, precision));
  // The value of the largest magnitude determines the scale best.
  const anchor = -distinct[0]! > distinct.at(-1)! ? 0 : distinct.length - 1;
  const tried = levels.filter((level) => Math.sign(level) === Math.sign(distinct[anchor]!));
  for (const level of tried) {
    const scale = scaleOf(distinct, errors, anchor, level, levels);
    if (scale === undefined) continue;
    const evidence = distinct.length === 1 ? 0 : BITS_PER_VALUE * (distinct.length - 1) - Math.log2(tried.length) - LUCK_BITS;
    return { scale, evidence };
  }
  return undefined;
}

/** Returns the scale if the value with index `anchor` has this level; `undefined` if another value then has none. */
function scaleOf(values: Float64Array, errors: Float64Array, anchor: number, level: number, levels: readonly number[]): number | undefined {
  let low = (Math.abs(values[anchor]!) - errors[anchor]!) / Math.abs(level);
  let high = (Math.abs(values[anchor]!) + errors[anchor]!) / Math.abs(level);
  let next = 0;
  for (const [i, value] of values.entries()) {
    const wanted = value / ((low + high) / 2);
    // Values are in ascending order, and so are their levels.
    while (next + 1 < levels.length && Math.abs(levels[next + 1]! - wanted) <= Math.abs(levels[next]! - wanted)) next += 1;
    const nearest = levels[next]!;
    if (Math.sign(nearest) !== Math.sign(value)) return undefined;
    low = Math.max(low, (Math.abs(value) - errors[i]!) / Math.abs(nearest));
    high = Math.min(high, (Math.abs(value) + errors[i]!) / Math.abs(nearest));
    if (low > high) return undefined;
    if (i + 1 < values.length && ++next === levels.length) return undefined;
  }
  return (low + high) / 2;
}
