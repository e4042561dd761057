/** Limits on the bytes that one call can read. */

import { LimitError } from "./errors.js";
import type { TensorInfo } from "./tensor.js";

/** The number of bytes that are read first to recognise a file. They contain the whole header of most models. */
export const HEAD_BYTES = 32768;

/**
 * The longest tensor that can be read, in bytes. The decoder's memory has 32-bit addresses, and one buffer may use at
 * most half of the address space.
 */
export const MAX_BYTES = 2 ** 31 - 1;

/**
 * Throws a `LimitError`, before anything is fetched, for a tensor that is too long for the decoder and, on many
 * platforms, for an array.
 */
export function checkSize({ name, byteLength, storedLength }: TensorInfo): void {
  const maxBytes = Math.max(byteLength, storedLength);
  if (maxBytes <= MAX_BYTES) return;
  throw new LimitError(
    `The tensor ${name} has ${maxBytes} bytes; at most ${MAX_BYTES} can be read at once in JavaScript. ` +
      "Read some rows at a time with the option `rows`, or the whole tensor with `zstn get`.",
    { tensor: name },
  );
}

/** Throws a `LimitError` for more rows than can be read at once. */
export function checkRowsSize({ name, byteLength }: TensorInfo): void {
  if (byteLength <= MAX_BYTES) return;
  throw new LimitError(`These rows of ${name} have ${byteLength} bytes; at most ${MAX_BYTES} can be read at once. Read fewer.`, {
    tensor: name,
  });
}
