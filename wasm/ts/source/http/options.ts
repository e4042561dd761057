/** Options for reading files from web servers. */

import { InvalidInputError } from "../../errors.js";
import type { ByteCache } from "../cache/byte-cache.js";
import { memoryCache } from "../cache/memory.js";
import { atLeast } from "../option.js";
import { DEFAULT_RETRIES } from "../retry.js";

/** The options for http(s) URLs. */
export interface HttpOptions {
  /**
   * The headers of every request. Redirects to other origins receive all of them except `Authorization` and cookies, so
   * pass secrets in `token`. In web pages, most headers cause a preflight request to other origins.
   */
  headers?: Headers | Record<string, string> | [string, string][];
  /** An access token, sent as `Authorization: Bearer …` to the origin of the URL only, and not to redirect targets. */
  token?: string;
  /** A replacement for the global `fetch`. */
  fetch?: typeof globalThis.fetch;
  /**
   * The maximum number of retries of a request after a transient failure: a broken connection, a truncated body, a
   * stall, status 408, 429 or 5xx. Bytes already received are kept. 3 by default; 0 disables retries.
   */
  retries?: number;
  /**
   * The time that a server may take to respond, and that a body may take without 32 KiB of new bytes, in milliseconds.
   * 30 000 by default.
   */
  idleTimeoutMs?: number;
  /**
   * The time that a read may take without progress, over all attempts and the waits between them, in milliseconds. It
   * starts again with every MiB received. A longer `Retry-After` fails the read immediately. 55 000 by default, or
   * `idleTimeoutMs` if that is longer.
   */
  giveUpAfterMs?: number;
  /**
   * The longest file that is downloaded whole into memory if its server does not support ranges, in bytes. 64 MiB by
   * default; with 0, such files are not downloaded.
   */
  maxFullDownloadBytes?: number;
  /**
   * Called before a file is downloaded whole because its server does not support ranges, with the URL of the file and
   * its length in bytes. A page can tell its user why opening takes long.
   */
  onFullDownload?: (url: string, bytes: number) => void;
  /** The URL of the hub that `hf://` addresses refer to. In Node `HF_ENDPOINT` by default, otherwise Hugging Face. */
  endpoint?: string;
  /**
   * A cache for the bytes that are read: a number of bytes of memory, or a cache from `memoryCache`, `opfsCache` or
   * `folderCache`. None by default.
   */
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
/** This default is below one minute, after which users and many programs give up. */
const DEFAULT_GIVE_UP_AFTER_MS = 55_000;
/** This default suffices for experiments with a simple server, and fits into the memory of a phone. */
const DEFAULT_MAX_FULL_DOWNLOAD_BYTES = 64 << 20;

/** Returns `options` with all defaults applied. Throws an `InvalidInputError` for values that are out of range. */
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

/** Returns a memory cache for an option `cache` that is a number of bytes. */
export function cacheOf(bytes: number): ByteCache {
  return memoryCache(atLeast("cache", bytes));
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
