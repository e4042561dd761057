/** Counts the reads of a source that has no counters itself. */

import type { ReadOptions, Source } from "./source.js";
import type { Traffic } from "./traffic.js";

/** Returns `source` with every read counted in `traffic`. */
export function withStats(source: Source, traffic: Traffic): Source {
  return {
    size: (options) => source.size(options),
    read: (offset, length, options: ReadOptions = {}) =>
      traffic.request(async () => {
        let announcedBytes = 0;
        const onBytes = (bytes: number) => {
          announcedBytes += bytes;
          traffic.arrived(bytes);
          options.onBytes?.(bytes);
        };
        const bytes = await source.read(offset, length, { ...options, onBytes });
        if (bytes.byteLength > announcedBytes) onBytes(bytes.byteLength - announcedBytes);
        return bytes;
      }),
  };
}
