/** Reading through a cache. A cache that fails is never worse than none. */

import { abortable } from "../abortable.js";
import type { ByteCache } from "./byte-cache.js";
import type { ReadOptions, Source } from "../source.js";

/**
 * Returns `source` with reads answered by `cache` where possible. `key` identifies the file and its version: bytes that
 * are cached under it are taken for those of the file. A persistent cache needs a key that no other file ever has, such
 * as its address and a digest.
 */
export function withCache(source: Source, cache: ByteCache, key: string): Source {
  return cachedSource(source, cache, () => key);
}

/**
 * Like `withCache`, with a key that may be known later: `keyOf` returns `undefined` while nothing may be cached. Calls
 * `onHit` with the length of every read that the cache answers. It stores exact ranges, not blocks: a tensor is read by
 * the same ranges every time, and blocks would fetch bytes that nobody asked for.
 */
export function cachedSource(source: Source, cache: ByteCache, keyOf: () => string | undefined, onHit?: (bytes: number) => void): Source {
  return {
    size: (options) => source.size(options),
    async read(offset, length, options: ReadOptions = {}) {
      const key = keyOf();
      if (key === undefined) return source.read(offset, length, options);
      const { signal } = options;
      const hit: unknown = await abortable(cache.get(key, offset, length).catch(() => undefined), signal);
      signal?.throwIfAborted();
      if (hit instanceof Uint8Array && hit.byteLength === length) {
        onHit?.(length);
        options.onBytes?.(length);
        return hit;
      }
      // A view is not transferable: the cache keeps these bytes, too.
      const bytes = (await source.read(offset, length, options)).subarray();
      // They may have turned out to be of another version.
      if (keyOf() === key) await abortable(cache.put(key, offset, bytes).catch(() => {}), signal);
      return bytes;
    },
  };
}
