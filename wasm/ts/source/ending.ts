/** Reads that end when something larger does. */

import type { Source } from "./source.js";

/** `source`, with `signal` stopping every read besides the read's own. */
export function ending(source: Source, signal: AbortSignal): Source {
  return {
    size: (options) => source.size(options),
    async read(offset, length, options = {}) {
      signal.throwIfAborted();
      return source.read(offset, length, { ...options, signal: options.signal ? AbortSignal.any([options.signal, signal]) : signal });
    },
  };
}
