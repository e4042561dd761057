/** The limits of what can be read at once. */

import { LimitError } from "./errors.js";
import type { TensorInfo } from "./tensor.js";

/** The longest tensor, in bytes. The memory of the decoder has 32-bit addresses, and a buffer may take at most half of them. */
export const MAX_BYTES = 2 ** 31 - 1;

/** Throws for a tensor that neither the decoder nor, on many platforms, an array can hold, before any of it is fetched. */
export function checkSize({ name, byteLength, storedLength }: TensorInfo): void {
  const maxBytes = Math.max(byteLength, storedLength);
  if (maxBytes <= MAX_BYTES) return;
  throw new LimitError(
    `The tensor ${name} has ${maxBytes} bytes; at most ${MAX_BYTES} can be read at once in JavaScript. ` +
      "Read some rows at a time with the option `rows`, or the whole tensor with `zstn get`.",
    { tensor: name },
  );
}

/** Throws for more rows than can be read at once. */
export function checkRowsSize({ name, byteLength }: TensorInfo): void {
  if (byteLength <= MAX_BYTES) return;
  throw new LimitError(`These rows of ${name} have ${byteLength} bytes; at most ${MAX_BYTES} can be read at once. Read fewer.`, {
    tensor: name,
  });
}
