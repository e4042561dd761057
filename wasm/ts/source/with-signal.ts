/** Sources whose reads all abort with one signal. */

import { abortSiblingsOnFailure } from "../abort-siblings.js";
import type { Source } from "./source.js";

/** Returns `source`, with every read also aborted by `signal`. */
export function withSignal(source: Source, signal: AbortSignal): Source {
  return {
    size: (options) => source.size(options),
    read: (offset, length, options = {}) =>
      abortSiblingsOnFailure([signal, options.signal], (signal) => source.read(offset, length, { ...options, signal })),
  };
}
