/** Finds the largest step of which all points are multiples, as far as their rounding allows. */

import type { Points } from "./unit-values.js";

export interface StepFit {
  readonly step: number;
  /**
   * The evidence for the step, in bits: the logarithm of the odds that values without a grid would all fit. The number
   * of steps that were tried is subtracted, so that the mean over values without a grid is below zero.
   */
  readonly evidence: number;
}

/** Subtracted from the evidence of each fit, in bits: the first step that fits fits better than the average one. */
const LUCK_BITS = 3;

/**
 * Returns the step; `undefined` if there is none for which the farthest point is at most `maxSteps` steps away. Every
 * point narrows the interval of possible steps. A point that fits any step in this interval is no evidence.
 */
export function fitStep({ distances, errors }: Points, maxSteps: number): StepFit | undefined {
  const last = distances.length - 1;
  if (last < 0) return { step: 0, evidence: 0 };
  // Different points are a different number of steps away.
  for (let steps = last + 1; steps <= maxSteps; steps++) {
    let low = (distances[last]! - errors[last]!) / steps;
    let high = (distances[last]! + errors[last]!) / steps;
    if (low <= 0) return undefined;
    let evidence = -Math.log2(steps) - LUCK_BITS;
    let i = 0;
    for (; i < last; i++) {
      const [nearest, farthest] = [distances[i]! - errors[i]!, distances[i]! + errors[i]!];
      const [from, to] = [nearest / high, farthest / low];
      const multiple = Math.ceil(from);
      const most = Math.floor(to);
      if (multiple > most || most < 1) break;
      if (multiple !== most) continue;
      low = Math.max(low, nearest / multiple);
      high = Math.min(high, farthest / multiple);
      if (low > high) break;
      if (to - from < 1) evidence -= Math.log2(Math.max(to - from, 2 ** -20));
    }
    if (i === last) return { step: (low + high) / 2, evidence: last === 0 ? 0 : evidence };
  }
  return undefined;
}
