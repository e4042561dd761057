/** Sources whose reads all end with one signal. */

import type { Source } from "./source.js";

/** Returns `source` with `signal` added to the signal of every read. */
export function withSignal(source: Source, signal: AbortSignal): Source {
  return {
    size: (options) => source.size(options),
    async read(offset, length, options = {}) {
      signal.throwIfAborted();
      return source.read(offset, length, { ...options, signal: options.signal ? AbortSignal.any([options.signal, signal]) : signal });
    },
  };
}
