/** How files on web servers are read. */

import { InvalidInputError } from "../errors.js";
import type { ByteCache } from "./byte-cache.js";
import type { CoalesceOptions } from "./coalesced.js";
import { DEFAULT_COALESCING } from "./coalesced.js";
import { memoryCache } from "./memory-cache.js";

/** Options for http(s) addresses; other sources take no notice of them. */
export interface HttpOptions {
  /**
   * Headers for every request. All but `Authorization` and cookies also go wherever the server redirects to, so
   * put secrets into `token`. From web pages, most of them cause a preflight on other origins.
   */
  headers?: Headers | Record<string, string> | [string, string][];
  /** Sent as `Authorization: Bearer …`, to the origin of the address only and nowhere it redirects to. */
  token?: string;
  /** Makes the requests instead of the global `fetch`. */
  fetch?: typeof globalThis.fetch;
  /**
   * How often a request is made again after a failure that may pass: a connection that breaks, a body cut short, a
   * stall, status 408, 429 or 5xx. What has arrived is kept. 3 by default; 0 for never.
   */
  retries?: number;
  /** How long a server may take to answer, and a body may go without 32 KiB more, in milliseconds; 30 000 by default. */
  stallMs?: number;
  /**
   * How long a read may wait in vain, in all its attempts and between them, in milliseconds; begins anew with every
   * MiB. A longer wait that a server asks for (`Retry-After`) is reported at once instead. 55 000 by default, or
   * `stallMs` if that is longer.
   */
  giveUpAfterMs?: number;
  /** Up to this length, in bytes, a file is read whole into memory if its server does not send parts; 64 MiB unless said otherwise. 0 for never. */
  wholeFileBytes?: number;
  /** How reads that are asked for at the same time become one request; `false` for never. */
  coalesce?: CoalesceOptions | false;
  /** Keeps bytes that were read: a number of bytes of memory, or a cache such as `memoryCache`, `opfsCache` or `folderCache` make. None unless said otherwise. */
  cache?: number | ByteCache;
}

/** With everything decided. */
export interface DecidedHttpOptions {
  headers: Headers;
  fetch: typeof globalThis.fetch;
  retries: number;
  stallMs: number;
  giveUpAfterMs: number;
  wholeFileBytes: number;
  coalesce: Required<CoalesceOptions> | undefined;
  cache: ByteCache | undefined;
}

const DEFAULT_RETRIES = 3;
const DEFAULT_STALL_MS = 30_000;
/** Less than the minute after which people, and whoever waits for a program, give up. */
const DEFAULT_GIVE_UP_AFTER_MS = 55_000;
/** Large enough to try things out with the simplest of servers, small enough for a phone. */
const DEFAULT_WHOLE_FILE_BYTES = 64 << 20;

export function decided(options: HttpOptions): DecidedHttpOptions {
  const { coalesce = {}, cache } = options;
  const stallMs = number("stallMs", options.stallMs ?? DEFAULT_STALL_MS, 1);
  return {
    headers: headersOf(options),
    fetch: options.fetch ?? ((...request) => globalThis.fetch(...request)),
    retries: number("retries", options.retries ?? DEFAULT_RETRIES),
    stallMs,
    giveUpAfterMs: number("giveUpAfterMs", options.giveUpAfterMs ?? Math.max(DEFAULT_GIVE_UP_AFTER_MS, stallMs), 1),
    wholeFileBytes: number("wholeFileBytes", options.wholeFileBytes ?? DEFAULT_WHOLE_FILE_BYTES),
    coalesce: coalesce === false ? undefined : coalescing(coalesce),
    cache: typeof cache === "number" ? cacheOf(cache) : cache,
  };
}

/** A cache in memory of so many bytes. */
export function cacheOf(bytes: number): ByteCache {
  return memoryCache(number("cache", bytes));
}

/** The options for a file that belongs to another one, with its secrets only if both are on the same origin. */
export function optionsBeside(options: HttpOptions, sameOrigin: boolean): HttpOptions {
  const { headers, token, fetch, retries, stallMs, giveUpAfterMs, wholeFileBytes, coalesce, cache } = options;
  const secrets = { ...(headers && { headers }), ...(token !== undefined && { token }) };
  return {
    ...(sameOrigin && secrets),
    ...(fetch && { fetch }),
    ...(retries !== undefined && { retries }),
    ...(stallMs !== undefined && { stallMs }),
    ...(giveUpAfterMs !== undefined && { giveUpAfterMs }),
    ...(wholeFileBytes !== undefined && { wholeFileBytes }),
    ...(coalesce !== undefined && { coalesce }),
    ...(cache !== undefined && { cache }),
  };
}

function headersOf({ headers, token }: HttpOptions): Headers {
  const all = new Headers(headers);
  if (token === undefined) return all;
  if (all.has("authorization")) throw new InvalidInputError("There is a `token` and an Authorization header in `headers`; only one can be sent.");
  try {
    all.set("Authorization", `Bearer ${token}`);
  } catch (cause) {
    throw new InvalidInputError("The `token` has characters that a header cannot have, such as a line break.", { cause });
  }
  return all;
}

function coalescing({ gapBytes, groupBytes }: CoalesceOptions): Required<CoalesceOptions> {
  return {
    gapBytes: number("coalesce.gapBytes", gapBytes ?? DEFAULT_COALESCING.gapBytes),
    groupBytes: number("coalesce.groupBytes", groupBytes ?? DEFAULT_COALESCING.groupBytes),
  };
}

function number(name: string, value: number, least = 0): number {
  if (typeof value === "number" && value >= least) return value;
  throw new InvalidInputError(`The option \`${name}\` must be a number not less than ${least}, not ${String(value)}.`);
}
