/** Reads through a cache. A failing cache only costs time: reads fall back to the source. */

import { abortable } from "../abortable.js";
import type { ByteCache } from "./byte-cache.js";
import type { ReadOptions, Source } from "../source.js";

/**
 * Returns `source` with reads answered by `cache` where possible. `key` identifies the file and its version: bytes
 * cached under this key are assumed to belong to this version. A persistent cache needs a key that no other file ever
 * has, such as the file's address and a digest.
 */
export function withCache(source: Source, cache: ByteCache, key: string): Source {
  return cachedSource(source, cache, () => key);
}

/**
 * Works like `withCache`, with a key that may become available later: `keyOf` returns `undefined` while nothing may be
 * cached. `onHit` is called with the length of every read that the cache answers. The cache stores exact ranges, not
 * blocks: a tensor is read by the same ranges every time, and blocks would fetch bytes that no caller has requested.
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
      // `subarray` creates a view, which is not transferable, because the cache retains the same bytes.
      const bytes = (await source.read(offset, length, options)).subarray();
      // The bytes are not cached if they turned out to belong to another version.
      if (keyOf() === key) await abortable(cache.put(key, offset, bytes).catch(() => {}), signal);
      return bytes;
    },
  };
}
