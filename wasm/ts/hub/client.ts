/** Sends requests to the HTTP API of a hub. */

import { FormatError, HttpError, LimitError, NetworkError } from "../errors.js";
import type { HttpOptions } from "../source/http/options.js";
import type { HubAddress } from "./address.js";
import { pageOf } from "./address.js";
import { environment } from "./environment.js";
import { refusalOf } from "./error.js";
import type { HubError } from "./error.js";

/**
 * The longest accepted response, in bytes. A page of a listing has at most a megabyte, but the response for a
 * repository lists all its file names at once.
 */
const MAX_ANSWER_BYTES = 64 << 20;

/** The options of requests to a hub. */
export type RequestOptions = HttpOptions & { signal?: AbortSignal };

/** A response of the hub: the parsed JSON and the headers. */
export interface HubAnswer {
  value: unknown;
  headers: Headers;
}

/** Requests `url` from the API of the hub, with the retries that `options` allow. */
export async function ask(url: URL, address: HubAddress, options: RequestOptions): Promise<HubAnswer> {
  const { abortable, mayPass, resolveHttpOptions, retrying, shortened, systemClock, unanswered, uncached } = environment();
  const { fetch, headers, retries, idleTimeoutMs, giveUpAfterMs } = resolveHttpOptions(options);
  const { signal } = options;
  let hasAnswered = false;
  let receivedBytes = 0;
  const stalled = (limitMs: number) => new NetworkError(url.href, `Next to nothing came from ${shortened(url.href)} for ${limitMs / 1000} seconds. Try again later.`);
  const shouldRetry = (error: unknown) => mayPass(error, hasAnswered);
  const policy = { retries, idleTimeoutMs, giveUpAfterMs, clock: systemClock, signal, stalled, shouldRetry, receivedBytes: () => receivedBytes, onRetry() {} };
  return retrying(async (idle) => {
    const either = signal ? AbortSignal.any([signal, idle.signal]) : idle.signal;
    try {
      const response = await abortable(fetch(url.href, { headers, signal: either, ...uncached() }), either);
      hasAnswered = true;
      idle.answered();
      if (!response.ok) throw refusal(response, url.href, address, headers) ?? statusError(response, url.href);
      const text = await textOf(response, url.href, (bytes) => {
        idle.received(bytes);
        receivedBytes += bytes;
      });
      return { value: parsed(text, url.href), headers: response.headers };
    } catch (cause) {
      either.throwIfAborted();
      throw cause instanceof HttpError || cause instanceof FormatError || cause instanceof LimitError ? cause : unanswered(url.href, cause);
    }
  }, policy);
}

/**
 * Returns a `fetch` function that rejects with a `HubError` if the hub gives a reason for refusing a file of this
 * repository. Other responses, and responses of other addresses, are returned unchanged.
 */
export function fetchOf(address: HubAddress, options: RequestOptions): typeof globalThis.fetch {
  const send = options.fetch ?? ((...request: Parameters<typeof fetch>) => globalThis.fetch(...request));
  return async (input, init) => {
    const response = await send(input, init);
    const url = String(input);
    // The same options also read a base or sibling elsewhere, so only files of this repository are checked.
    const error = response.status >= 400 && filePath(url, address) !== undefined && refusal(response, url, address, new Headers(init?.headers));
    if (!error) return response;
    void response.body?.cancel().catch(() => {});
    throw error;
  };
}

function refusal(response: Response, url: string, address: HubAddress, headers: Headers): HubError | undefined {
  const file = filePath(url, address);
  const asked = file === undefined ? address : { ...address, file };
  return refusalOf(response, url, asked, pageOf(address), { hasToken: headers.has("authorization"), logIn: environment().logIn(), endpoint: address.endpoint });
}

/**
 * Returns the path of the file that `url` points to, which an index may have named; `undefined` if `url` is not a file
 * of the repository.
 */
function filePath(url: string, address: HubAddress): string | undefined {
  const files = `${pageOf(address)}/resolve/`;
  const { origin, pathname } = new URL(url);
  const path = origin + pathname;
  return path.startsWith(files) ? decodeURIComponent(path.slice(path.indexOf("/", files.length) + 1)) : undefined;
}

function statusError(response: Response, url: string): HttpError {
  const { parseRetryAfter, statusMessage, systemClock } = environment();
  return new HttpError(url, response.status, statusMessage(url, response), parseRetryAfter(response.headers.get("retry-after"), systemClock.now()));
}

async function textOf(response: Response, url: string, onBytes: (bytes: number) => void): Promise<string> {
  const decoder = new TextDecoder();
  const reader = response.body?.getReader();
  let text = "";
  for (let sizeBytes = 0; reader; ) {
    const { value } = await reader.read();
    if (!value) break;
    onBytes(value.byteLength);
    sizeBytes += value.byteLength;
    if (sizeBytes > MAX_ANSWER_BYTES) {
      void reader.cancel().catch(() => {});
      throw new LimitError(`The answer of ${environment().shortened(url)} has more than ${MAX_ANSWER_BYTES} bytes. Name the file to open, as in hf://owner/name/file.`);
    }
    text += decoder.decode(value, { stream: true });
  }
  return text + decoder.decode();
}

function parsed(text: string, url: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new FormatError(`The answer of ${environment().shortened(url)} is not JSON: this seems not to be a hub. Check the address of the hub.`, {}, { cause });
  }
}
