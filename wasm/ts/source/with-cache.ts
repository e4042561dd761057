/** Reading through a cache. A cache that fails is never worse than none. */

import { abortable } from "./abortable.js";
import type { ByteCache } from "./byte-cache.js";
import type { ReadOptions, Source } from "./source.js";
import type { Traffic } from "./traffic.js";

/**
 * Returns `source` with reads answered by `cache` where possible. It stores exact ranges, not blocks: a tensor is read
 * by the same ranges every time, and blocks would fetch bytes that nobody asked for. `keyOf` returns `undefined` for a
 * file that must not be cached.
 */
export function withCache(source: Source, cache: ByteCache, keyOf: () => string | undefined, traffic: Traffic): Source {
  return {
    size: (options) => source.size(options),
    async read(offset, length, options: ReadOptions = {}) {
      const key = keyOf();
      if (key === undefined) return source.read(offset, length, options);
      const { signal } = options;
      const hit: unknown = await abortable(cache.get(key, offset, length).catch(() => undefined), signal);
      signal?.throwIfAborted();
      if (hit instanceof Uint8Array && hit.byteLength === length) {
        traffic.cached(length);
        options.onBytes?.(length);
        return hit;
      }
      // A view is not transferable: the cache keeps these bytes, too.
      const bytes = (await source.read(offset, length, options)).subarray();
      await abortable(cache.put(key, offset, bytes).catch(() => {}), signal);
      return bytes;
    },
  };
}
