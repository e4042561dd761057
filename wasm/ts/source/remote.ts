/** The source behind an http(s) URL: requests with retries, coalescing and a cache. */

import type { ByteCache } from "./byte-cache.js";
import { withCache } from "./with-cache.js";
import { systemClock } from "./clock.js";
import { withCoalescing } from "./with-coalescing.js";
import { resolveHttpOptions } from "./http-options.js";
import type { HttpOptions } from "./http-options.js";
import { HttpSource } from "./http.js";
import type { Source } from "./source.js";
import type { Traffic } from "./traffic.js";
import { HttpClient } from "./http-client.js";

/** Distinguishes files without a strong ETag by the `open` call that opened them. */
let opened = 0;

export function remoteSource(address: URL, options: HttpOptions, traffic: Traffic): Source {
  const { headers, fetch, retries, idleTimeoutMs, giveUpAfterMs, maxFullDownloadBytes, coalesce, cache } = resolveHttpOptions(options);
  const url = new URL(address);
  url.hash = "";
  const client = new HttpClient(url.href, { fetch, headers, traffic });
  const file = new HttpSource(client, { retries, idleTimeoutMs, giveUpAfterMs, maxFullDownloadBytes, clock: systemClock, onRetry: () => traffic.retried() });
  const coalesced = coalesce ? withCoalescing(file, coalesce) : file;
  const source = cache ? withCache(coalesced, cache, () => cacheKey(cache), traffic) : coalesced;

  const session = `opened ${(opened += 1)}`;
  function cacheKey({ persistent }: ByteCache): string | undefined {
    if (file.version !== undefined) return `${url.href} ${file.version}`;
    return persistent ? undefined : `${url.href} ${session}`;
  }

  return {
    size: (options) => file.size(options),
    get version() {
      return file.version;
    },
    // Bytes in memory need neither coalescing nor a cache.
    read: (offset, length, options) => (file.holds(offset, length) ? file : source).read(offset, length, options),
  };
}
