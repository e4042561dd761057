/** Enforces the contract of a source, so that later code need not. */

import { InvalidInputError, TruncatedError } from "../errors.js";
import type { ReadOptions, Source } from "./source.js";

/** Returns `source` with sizes, lengths and types checked. A call does not start if its signal has already aborted. */
export function withValidation(source: Source): Source {
  return {
    async size(options: ReadOptions = {}) {
      options.signal?.throwIfAborted();
      const sizeBytes = await source.size(options);
      if (!Number.isSafeInteger(sizeBytes) || sizeBytes < 0) {
        throw new InvalidInputError(`The source's size() returned ${String(sizeBytes)}; it must return a number of bytes.`);
      }
      return sizeBytes;
    },
    async read(offset, length, options: ReadOptions = {}) {
      options.signal?.throwIfAborted();
      const bytes: unknown = await source.read(offset, length, options);
      options.signal?.throwIfAborted();
      if (!(bytes instanceof Uint8Array)) {
        throw new InvalidInputError("The source's read() must return a Uint8Array, and slice() that or an ArrayBuffer.");
      }
      if (bytes.byteLength !== length) {
        throw new TruncatedError(
          length,
          bytes.byteLength,
          `Requested ${length} bytes at position ${offset}, the source returned ${bytes.byteLength}.`,
        );
      }
      return bytes;
    },
    get pinned() {
      return source.pinned;
    },
  };
}
