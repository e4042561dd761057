/** The types that the viewer shows, and their colours in the palette. The colours themselves are in style/color.css. */

import type { TensorInfo } from "zstn";

/**
 * Returns the type to show for a tensor: its dtype, or, for quantised blocks of GGUF, the type of the blocks such as
 * `"Q4_K"`. Formats of compressed-tensors are written in lower case; such tensors are shown with their dtype.
 */
export const typeOf = ({ dtype, format }: Pick<TensorInfo, "dtype" | "format">): string => (isBlockType(format) ? format : dtype);

/** Returns whether a tensor's `format` is a type of quantised blocks of GGUF. */
export const isBlockType = (format: string | undefined): format is string => format !== undefined && /^[A-Z]/.test(format);

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
  if (/^(F[468]|I?Q\d|TQ|MXFP|NVFP)/.test(dtype)) return "eight";
  if (/^[IU]\d+$/.test(dtype)) return "integer";
  return "other";
}
