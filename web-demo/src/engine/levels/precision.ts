/** The rounding that the values of a tensor have been through. */

/** The number of significant bits of a float format, and the exponent of its smallest normal number. */
export interface Precision {
  readonly bits: number;
  readonly minExponent: number;
}

/** Tolerances are a little larger than half of the spacing, for products that were rounded to 32 bits before. */
const SLACK = 1.001;

/**
 * Returns the precision of values of a dtype. If no value has more than `significantBits` significant bits, it is that
 * of the shorter format that the values came from: an F32 tensor may contain bfloat16 values. Products of 32-bit floats
 * may have been rounded several times, so two bits are left out.
 */
export function precisionOf(dtype: string, significantBits: number): Precision {
  const minExponent = dtype === "F16" ? -14 : -126;
  if (dtype === "BF16" || significantBits <= 8) return { bits: 8, minExponent };
  if (dtype === "F16" || significantBits <= 11) return { bits: 11, minExponent };
  return { bits: 22, minExponent };
}

/** Returns the distance between a value and its neighbour of larger magnitude. */
export function spacing(value: number, { bits, minExponent }: Precision): number {
  const exponent = Math.floor(Math.log2(Math.abs(value)));
  return 2 ** (Math.max(exponent, minExponent) - bits + 1);
}

/** Returns the largest distance between a stored value and the value before it was rounded. */
export const roundingError = (value: number, precision: Precision): number => (SLACK / 2) * spacing(value, precision);
