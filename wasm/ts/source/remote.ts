/** The source behind an http(s) address: requests, tried again, joined, and kept. */

import type { ByteCache } from "./byte-cache.js";
import { cached } from "./cached.js";
import { systemClock } from "./clock.js";
import { coalesced } from "./coalesced.js";
import { decided } from "./http-options.js";
import type { HttpOptions } from "./http-options.js";
import { HttpSource } from "./http.js";
import type { Source } from "./source.js";
import type { Traffic } from "./traffic.js";
import { Wire } from "./wire.js";

/** Files that no validator names are told apart by when they were opened. */
let opened = 0;

export function remoteSource(address: URL, options: HttpOptions, traffic: Traffic): Source {
  const { headers, fetch, retries, stallMs, giveUpAfterMs, wholeFileBytes, coalesce, cache } = decided(options);
  const url = new URL(address);
  url.hash = "";
  const wire = new Wire(url.href, { fetch, headers, traffic });
  const file = new HttpSource(wire, { retries, stallMs, giveUpAfterMs, wholeFileBytes, clock: systemClock, onRetry: () => traffic.retried() });
  const joined = coalesce ? coalesced(file, coalesce) : file;
  const kept = cache ? cached(joined, cache, () => cacheKey(cache), traffic) : joined;

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
    // What is in memory needs neither company nor a cache.
    read: (offset, length, options) => (file.holds(offset, length) ? file : kept).read(offset, length, options),
  };
}
