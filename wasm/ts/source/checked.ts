/** Holds a source to its contract, so that nothing behind it has to. */

import { InvalidInputError, TruncatedError } from "../errors.js";
import type { ReadOptions, Source } from "./source.js";

/** `source`, with sizes, lengths and types checked, and aborted calls never started. */
export function checked(source: Source): Source {
  return {
    async size(options: ReadOptions = {}) {
      options.signal?.throwIfAborted();
      const sizeBytes = await source.size(options);
      if (!Number.isSafeInteger(sizeBytes) || sizeBytes < 0) {
        throw new InvalidInputError(`The source says that its size is ${String(sizeBytes)}; a number of bytes is needed.`);
      }
      return sizeBytes;
    },
    async read(offset, length, options: ReadOptions = {}) {
      options.signal?.throwIfAborted();
      const bytes: unknown = await source.read(offset, length, options);
      options.signal?.throwIfAborted();
      if (!(bytes instanceof Uint8Array)) {
        throw new InvalidInputError("The source's read() must give a Uint8Array.");
      }
      if (bytes.byteLength !== length) {
        throw new TruncatedError(
          length,
          bytes.byteLength,
          `Asked for ${length} bytes at position ${offset}, the source gave ${bytes.byteLength}.`,
        );
      }
      return bytes;
    },
    get version() {
      return source.version;
    },
  };
}
