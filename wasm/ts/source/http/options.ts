/** Options for reading files from web servers. */

import { InvalidInputError } from "../../errors.js";
import type { ByteCache } from "../cache/byte-cache.js";
import { HTTP_OPTIONS } from "../../known-options.js";
import { memoryCache } from "../cache/memory.js";
import { atLeast } from "../option.js";
import { DEFAULT_RETRIES } from "../retry.js";

/** Options for http(s) URLs. */
export interface HttpOptions {
  /**
   * Headers of every request. Redirects to other origins carry all but `Authorization` and cookies along, so put
   * secrets into `token`. In web pages, most headers cause a preflight for other origins.
   */
  headers?: Headers | Record<string, string> | [string, string][];
  /** Sent as `Authorization: Bearer …` to the origin of the URL only, and not to where it redirects. */
  token?: string;
  /** Replaces the global `fetch`. */
  fetch?: typeof globalThis.fetch;
  /**
   * How many times a request is retried after a failure that may pass: a broken connection, a truncated body, a stall,
   * status 408, 429 or 5xx. Bytes already received are kept. 3 by default; 0 for never.
   */
  retries?: number;
  /** How long a server may take to answer, and how long a body may go without 32 KiB of new bytes, in milliseconds. 30 000 by default. */
  idleTimeoutMs?: number;
  /**
   * How long a read may go without progress, over all attempts and the waits between them, in milliseconds. Every MiB
   * received starts it anew. A `Retry-After` that is longer fails the read at once. 55 000 by default, or
   * `idleTimeoutMs` if that is longer.
   */
  giveUpAfterMs?: number;
  /** The longest file that is downloaded whole into memory if its server does not support ranges, in bytes. 64 MiB by default; 0 for never. */
  maxFullDownloadBytes?: number;
  /** The URL of the hub that `hf://` addresses mean. In Node `HF_ENDPOINT` by default, otherwise Hugging Face. */
  endpoint?: string;
  /** A cache for the bytes read: a number of bytes of memory, or a cache from `memoryCache`, `opfsCache` or `folderCache`. None by default. */
  cache?: number | ByteCache;
}

/** `HttpOptions` with all defaults applied. */
export interface ResolvedHttpOptions {
  headers: Headers;
  fetch: typeof globalThis.fetch;
  retries: number;
  idleTimeoutMs: number;
  giveUpAfterMs: number;
  maxFullDownloadBytes: number;
  cache: ByteCache | undefined;
}

const DEFAULT_IDLE_TIMEOUT_MS = 30_000;
/** Less than the minute after which people, and many callers, give up. */
const DEFAULT_GIVE_UP_AFTER_MS = 55_000;
/** Large enough for experiments with the simplest of servers, small enough for a phone. */
const DEFAULT_MAX_FULL_DOWNLOAD_BYTES = 64 << 20;

/** Returns `options` with all defaults applied. Throws for values that are out of range. */
export function resolveHttpOptions(options: HttpOptions): ResolvedHttpOptions {
  const { cache } = options;
  const idleTimeoutMs = atLeast("idleTimeoutMs", options.idleTimeoutMs ?? DEFAULT_IDLE_TIMEOUT_MS, 1);
  return {
    headers: headersOf(options),
    fetch: options.fetch ?? ((...request) => globalThis.fetch(...request)),
    retries: atLeast("retries", options.retries ?? DEFAULT_RETRIES),
    idleTimeoutMs,
    giveUpAfterMs: atLeast("giveUpAfterMs", options.giveUpAfterMs ?? Math.max(DEFAULT_GIVE_UP_AFTER_MS, idleTimeoutMs), 1),
    maxFullDownloadBytes: atLeast("maxFullDownloadBytes", options.maxFullDownloadBytes ?? DEFAULT_MAX_FULL_DOWNLOAD_BYTES),
    cache: typeof cache === "number" ? cacheOf(cache) : cache,
  };
}

/** Returns a cache of `bytes` bytes of memory. */
export function cacheOf(bytes: number): ByteCache {
  return memoryCache(atLeast("cache", bytes));
}

/** Returns the options for a file that belongs to another one. Secrets are kept only if both have the same origin. */
export function optionsForRelatedFile(options: HttpOptions, sameOrigin: boolean): HttpOptions {
  const isKept = ([name, value]: [string, unknown]) => name in HTTP_OPTIONS && value !== undefined && (sameOrigin || !/^(headers|token)$/.test(name));
  return Object.fromEntries(Object.entries(options).filter(isKept));
}

function headersOf({ headers, token }: HttpOptions): Headers {
  const all = new Headers(headers);
  if (token === undefined) return all;
  if (all.has("authorization")) throw new InvalidInputError("Pass either `token` or an Authorization header in `headers`, not both.");
  try {
    all.set("Authorization", `Bearer ${token}`);
  } catch (cause) {
    throw new InvalidInputError("The `token` has characters that a header must not contain.", { cause });
  }
  return all;
}
