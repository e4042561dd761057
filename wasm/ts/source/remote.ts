/** The source for an http(s) URL: requests with retries, coalescing and a cache. */

import type { ByteCache } from "./cache/byte-cache.js";
import { cachedSource } from "./cache/with-cache.js";
import { systemClock } from "./clock.js";
import { withCoalescing } from "./merging/with-coalescing.js";
import type { CoalesceOptions } from "./merging/with-coalescing.js";
import { resolveHttpOptions } from "./http/options.js";
import type { HttpOptions } from "./http/options.js";
import { HttpSource } from "./http/source.js";
import type { Source } from "./source.js";
import type { Traffic } from "./traffic.js";
import { HttpClient } from "./http/client.js";
import type { Pinned } from "./http/pinned.js";

/**
 * The number of files opened so far. It distinguishes cached files without a strong ETag by the `open` call that opened
 * them.
 */
let opened = 0;

/** Returns the source for the file at `address`, which reads the version `pinned` if it is given. Every request is counted in `traffic`. */
export function remoteSource(address: URL, options: HttpOptions, coalesce: CoalesceOptions | false | undefined, traffic: Traffic, pinned?: Pinned): Source {
  const { headers, fetch, retries, idleTimeoutMs, giveUpAfterMs, maxFullDownloadBytes, cache } = resolveHttpOptions(options);
  const url = new URL(address);
  url.hash = "";
  const client = new HttpClient(url.href, { fetch, headers, traffic });
  const file = new HttpSource(client, { retries, idleTimeoutMs, giveUpAfterMs, maxFullDownloadBytes, onFullDownload: options.onFullDownload, clock: systemClock, onRetry: () => traffic.retried() }, pinned);
  const coalesced = coalesce === false ? file : withCoalescing(file, coalesce);
  const source = cache ? cachedSource(coalesced, cache, () => cacheKey(cache), (bytes) => traffic.cached(bytes)) : coalesced;

  const session = `opened ${(opened += 1)}`;
  function cacheKey({ persistent }: ByteCache): string | undefined {
    const version = file.pinned?.version;
    if (version !== undefined) return `${url.href} ${version}`;
    return persistent ? undefined : `${url.href} ${session}`;
  }

  return {
    size: (options) => file.size(options),
    get pinned() {
      return file.pinned;
    },
    // Bytes in memory need neither coalescing nor a cache.
    read: (offset, length, options) => (file.holds(offset, length) ? file : source).read(offset, length, options),
  };
}
