/** Finds the rows of an uncompressed tensor, like `core/src/model/rows.rs`. */

import type { RowRange } from "../rows.js";
import type { StoredPart, TensorInfo } from "../tensor.js";
import { DTYPE_BITS } from "./header.js";
import { refusal } from "./core-error.js";

/**
 * Returns the byte range of some rows: an empty array if they have no bytes, `undefined` if they are the whole tensor.
 * The tensor must have these rows. Throws an `InvalidInputError` for rows that do not begin and end on a byte boundary.
 */
export function plainRows({ name, dtype, shape: [, ...row], byteLength, parts: [part] }: TensorInfo, [first, last]: RowRange): StoredPart[] | undefined {
  // The length of a row may overflow a number, which does not matter if no rows are read.
  const rowBits = first === last ? 0 : row.reduce((product, dimension) => product * dimension, DTYPE_BITS[dtype]);
  const [begin, end] = [(first * rowBits) / 8, (last * rowBits) / 8];
  if (!Number.isInteger(begin) || !Number.isInteger(end)) {
    throw refusal("invalid_input", `rows ${first}..${last} of ${rowBits} bits each do not begin and end on a byte`, { tensor: name });
  }
  if (begin === 0 && end === byteLength) return undefined;
  return begin === end ? [] : [{ file: part!.file, offset: part!.offset + begin, length: end - begin }];
}
