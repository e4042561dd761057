/** Maps dtypes to colours of the palette. The colours themselves are in style/color.css. */

export type DtypeFamily = "half" | "single" | "double" | "eight" | "integer" | "other";

/**
 * Returns whether the elements of a dtype are floating-point numbers: weights, as opposed to masks, positions or packed
 * integers.
 */
export const isFloat = (dtype: string): boolean => /^(BF16|F\d|C64)/.test(dtype);

export function dtypeFamily(dtype: string): DtypeFamily {
  if (dtype === "BF16" || dtype === "F16") return "half";
  if (dtype === "F32") return "single";
  if (dtype === "F64" || dtype === "C64") return "double";
  if (/^F[468]/.test(dtype)) return "eight";
  if (/^[IU]\d+$/.test(dtype)) return "integer";
  return "other";
}
