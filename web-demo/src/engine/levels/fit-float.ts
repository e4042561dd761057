/** Finds a scale with which all values have few significant bits, as the values of 8-bit floats have. */

import type { Points } from "./unit-values.js";

/** The significant bits of 8-bit floats, and the ratio of their largest number to their smallest. */
const FORMATS = {
  E4M3: { bits: 4, range: 448 / 2 ** -9 },
  E5M2: { bits: 3, range: 57344 / 2 ** -16 },
};

/** Subtracted from the evidence of each fit, in bits: the first scale that fits fits better than the average one. */
const LUCK_BITS = 3;

/**
 * Returns the evidence that the points are numbers of a format times one scale, in bits; `undefined` if they are not. The
 * scale is only known up to a power of two.
 */
export function fitFloat({ distances, errors }: Points, format: keyof typeof FORMATS): number | undefined {
  const { bits, range } = FORMATS[format];
  const last = distances.length - 1;
  if (last >= 0 && distances[last]! > range * distances[0]!) return undefined;
  if (last <= 0) return 0;
  // The significand of the farthest point is a whole number of this many bits.
  const least = 2 ** (bits - 1);
  for (let significand = least; significand < 2 * least; significand++) {
    let low = (distances[last]! - errors[last]!) / significand;
    let high = (distances[last]! + errors[last]!) / significand;
    if (low <= 0) return undefined;
    let evidence = 1 - bits - LUCK_BITS;
    let i = 0;
    for (; i < last; i++) {
      const power = 2 ** (Math.floor(Math.log2((2 * distances[i]!) / (low + high))) - bits + 1);
      const [nearest, farthest] = [(distances[i]! - errors[i]!) / power, (distances[i]! + errors[i]!) / power];
      const [from, to] = [nearest / high, farthest / low];
      const whole = Math.ceil(from);
      if (whole > to) break;
      if (whole !== Math.floor(to)) continue;
      low = Math.max(low, nearest / whole);
      high = Math.min(high, farthest / whole);
      if (low > high) break;
      if (to - from < 1) evidence -= Math.log2(Math.max(to - from, 2 ** -20));
    }
    if (i === last) return evidence;
  }
  return undefined;
}
