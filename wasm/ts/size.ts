/** What is too large to be read as one piece. */

import { LimitError } from "./errors.js";
import type { TensorInfo } from "./tensor.js";

/** The decoder's memory has addresses of 32 bits, and no buffer in it may take more than half of them. In bytes. */
export const MOST_BYTES = 2 ** 31 - 1;

/** Refuses a tensor that neither the decoder nor, on many platforms, an array can hold; nothing of it needs to be fetched for that. */
export function checkSize({ name, byteLength, storedLength }: TensorInfo): void {
  const mostBytes = Math.max(byteLength, storedLength);
  if (mostBytes <= MOST_BYTES) return;
  throw new LimitError(
    `The tensor ${name} has ${mostBytes} bytes; at most ${MOST_BYTES} can be read at once in JavaScript. ` +
      "Read some of its rows at a time, with `rows`, or all of it with `zstn get`.",
    { tensor: name },
  );
}

/** Refuses rows that are too many to be read at once. */
export function checkRowsSize({ name, byteLength }: TensorInfo): void {
  if (byteLength <= MOST_BYTES) return;
  throw new LimitError(`These rows of ${name} have ${byteLength} bytes; at most ${MOST_BYTES} can be read at once in JavaScript. Read fewer.`, {
    tensor: name,
  });
}
