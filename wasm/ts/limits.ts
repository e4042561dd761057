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
 * Throws a `LimitError`, before anything is fetched, for a tensor or a part of one that is too long for the decoder and,
 * on many platforms, for an array.
 */
export function checkSize({ name, byteLength, storedLength }: TensorInfo): void {
  const maxBytes = Math.max(byteLength, storedLength);
  if (maxBytes <= MAX_BYTES) return;
  throw new LimitError(
    `This read of ${name} takes ${maxBytes} bytes; at most ${MAX_BYTES} can be read at once. ` +
      "Read parts with `rows` or `select`, or the whole tensor with `zstn get`.",
    { tensor: name },
  );
}
