/** Checks responses to range requests, and creates the errors for invalid ones. */

import { ContentEncodingError, HttpError, RangeNotSupportedError, SourceChangedError } from "../../errors.js";
import { parseContentRange } from "./content-range.js";
import type { ContentRange } from "./content-range.js";
import { shortened, statusMessage } from "./error-message.js";
import { headersMayBeHidden } from "../environment.js";
import { parseRetryAfter } from "./retry-after.js";
import { difference } from "./validator.js";
import type { Validators } from "./validator.js";

/**
 * The number of consecutive responses that may be shorter than requested. A server that halves the range each time
 * succeeds; one that sends single bytes does not.
 */
const MAX_SHORT_RESPONSES = 64;

export class ResponseCheck {
  readonly #url: string;
  readonly #now: () => number;

  /** `now` returns milliseconds since 1970. */
  constructor(url: string, now: () => number) {
    this.#url = url;
    this.#now = now;
  }

  /**
   * Returns the range that the server reports; `undefined` if a web page may not see it. Throws a
   * `RangeNotSupportedError` for an invalid or missing header.
   */
  contentRange(response: Response): ContentRange | undefined {
    const header = response.headers.get("content-range");
    const range = header === null ? undefined : parseContentRange(header);
    if (range?.sent) return range;
    if (header !== null) throw this.noRanges(`answered with other bytes than were requested: ${header}.`);
    if (headersMayBeHidden(response)) return undefined;
    throw this.noRanges("answered without stating which bytes it sends and the size of the file (Content-Range).");
  }

  /**
   * Returns the number of bytes sent: all that were requested, or only the first of them, which RFC 9110 allows. Throws
   * a `RangeNotSupportedError` for other bytes.
   */
  sentBytes({ sent }: ContentRange, offset: number, length: number): number {
    const { first, last } = sent!;
    const lastAsked = offset + length - 1;
    if (first === offset && last <= lastAsked) return last - first + 1;
    throw this.noRanges(`answered with other bytes than were requested: ${first} to ${last} instead of ${offset} to ${lastAsked}.`);
  }

  /**
   * Returns a function that counts consecutive short responses, and throws a `RangeNotSupportedError` when there are
   * too many.
   */
  countShortResponses(): () => void {
    let count = 0;
    return () => {
      if ((count += 1) > MAX_SHORT_RESPONSES) throw this.noRanges(`sent less than was requested ${MAX_SHORT_RESPONSES} times in a row.`);
    };
  }

  /**
   * Throws a `ContentEncodingError` for a compressed response. Requests do not accept compression, but some servers
   * compress regardless.
   */
  refuseEncoded(response: Response): void {
    const encoding = response.headers.get("content-encoding")?.trim() ?? "";
    if (encoding === "" || /^identity$/i.test(encoding)) return;
    throw new ContentEncodingError(
      this.#url,
      `The server of ${shortened(this.#url)} sent the file compressed (${encoding}). Turn compression off for this file.`,
    );
  }

  statusError(response: Response): HttpError {
    const retryAfterMs = parseRetryAfter(response.headers.get("retry-after"), this.#now());
    return new HttpError(this.#url, response.status, statusMessage(this.#url, response), retryAfterMs);
  }

  noRanges(what: string): RangeNotSupportedError {
    return new RangeNotSupportedError(this.#url, `The server of ${shortened(this.#url)} ${what}`);
  }

  notJoinable(): RangeNotSupportedError {
    return this.noRanges("sent less than was requested, without ETag or Last-Modified to ask for the rest by.");
  }

  unknownSize(): RangeNotSupportedError {
    return this.noRanges('does not state the size of the file. For use from web pages it should send "Access-Control-Expose-Headers: Content-Range".');
  }

  /** Returns the error for a response whose validators differ from the `pinned` ones of the first response. */
  other(pinned: Validators, answered: Validators): SourceChangedError {
    return this.changed(`: ${difference(pinned, answered)}; if several servers answer, download it first`);
  }

  changed(how: string): SourceChangedError {
    return new SourceChangedError(`The file at ${shortened(this.#url)} was changed while it was being read${how}. Open it again.`);
  }
}

/**
 * Returns whether a response is for an empty file. An empty file has no valid range: servers respond with 416 and its
 * size, or with 200 and no bytes.
 */
export function isEmptyFile(response: Response): boolean {
  if (response.status === 200) return response.headers.get("content-length") === "0";
  const range = response.headers.get("content-range");
  return response.status === 416 && range !== null && parseContentRange(range)?.sizeBytes === 0;
}
