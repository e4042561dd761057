/** Reads through a cache. A cache that fails makes nothing worse than reading without it. */

import { abortable } from "./abortable.js";
import type { ByteCache } from "./byte-cache.js";
import type { ReadOptions, Source } from "./source.js";
import type { Traffic } from "./traffic.js";

/**
 * `source`, with reads answered by `cache` where it can. Exact ranges are kept, not blocks: tensors are asked for
 * by the same ranges every time, and blocks would fetch what nobody asked for. `keyOf` gives nothing for a file
 * that is not to be cached.
 */
export function cached(source: Source, cache: ByteCache, keyOf: () => string | undefined, traffic: Traffic): Source {
  return {
    size: (options) => source.size(options),
    async read(offset, length, options: ReadOptions = {}) {
      const key = keyOf();
      if (key === undefined) return source.read(offset, length, options);
      const { signal } = options;
      const kept: unknown = await abortable(cache.get(key, offset, length).catch(() => undefined), signal);
      signal?.throwIfAborted();
      if (kept instanceof Uint8Array && kept.byteLength === length) {
        traffic.cached(length);
        options.onBytes?.(length);
        return kept;
      }
      // A view, which is not `given`: the cache will have these bytes, too.
      const bytes = (await source.read(offset, length, options)).subarray();
      await abortable(cache.put(key, offset, bytes).catch(() => {}), signal);
      return bytes;
    },
  };
}
