/**
 * A file on a web server, read with range requests. The first request asks for the head of
 * the file and learns its size and version from the answer, so that opening costs no request of its own.
 */

import { ContentEncodingError, HttpError, RangeNotSupportedError, SourceChangedError } from "../errors.js";
import { readBody } from "./body.js";
import type { Clock } from "./clock.js";
import { parseContentRange } from "./content-range.js";
import type { ContentRange } from "./content-range.js";
import { give } from "./given.js";
import { shortened, statusMessage } from "./http-message.js";
import { hidesHeaders, inBrowser } from "./page.js";
import { Received } from "./received.js";
import { parseRetryAfter } from "./retry-after.js";
import { mayPass, retrying } from "./retry.js";
import type { ReadOptions, Source } from "./source.js";
import { sameVersion, strongEtag, validatorsOf } from "./validator.js";
import type { Validators } from "./validator.js";
import type { Answer, Wire } from "./wire.js";

/** Length of the first read, in bytes: enough to recognise any file, and to hold most headers whole. */
const HEAD_BYTES = 32768;

export interface HttpSourceOptions {
  retries: number;
  /** Up to this length a file is read whole if its server does not send parts, in bytes. */
  wholeFileBytes: number;
  clock: Clock;
  onRetry: () => void;
}

/** What the first answer told. */
interface Pinned {
  sizeBytes: number;
  validators: Validators;
  /** Sent with every range as `If-Range`, where that is worth something and costs nothing. */
  ifRange: string | undefined;
  /** The head, or the whole file from a server that does not send parts. */
  kept: Uint8Array;
  /** Whether someone was told of the head when it arrived. */
  announced: boolean;
}

type Beginning = Pick<Pinned, "validators" | "ifRange" | "kept"> & { sizeBytes: number | undefined };

export class HttpSource implements Source {
  readonly #wire: Wire;
  readonly #options: HttpSourceOptions;
  #pinned: Pinned | undefined;

  constructor(wire: Wire, options: HttpSourceOptions) {
    this.#wire = wire;
    this.#options = options;
  }

  async size(options: ReadOptions = {}): Promise<number> {
    this.#pinned ??= await this.#begin(options);
    return this.#pinned.sizeBytes;
  }

  /** What tells this version of the file from all others, if there is such a thing. */
  get version(): string | undefined {
    return this.#pinned && strongEtag(this.#pinned.validators);
  }

  /** Whether a read will be answered from memory. */
  holds(offset: number, length: number): boolean {
    const pinned = this.#pinned;
    if (pinned === undefined) return false;
    return (isWhole(pinned) || offset === 0) && offset + length <= pinned.kept.byteLength;
  }

  async read(offset: number, length: number, options: ReadOptions = {}): Promise<Uint8Array> {
    const pinned = (this.#pinned ??= await this.#begin(options));
    if (this.holds(offset, length)) {
      const bytes = pinned.kept.subarray(offset, offset + length);
      if (offset > 0 || !pinned.announced) options.onBytes?.(length);
      if (!isWhole(pinned)) pinned.kept = new Uint8Array(0); // given away once
      return bytes;
    }
    const received = new Received(options.onBytes);
    await this.#retrying(received, options.signal, () => this.#readOn(pinned, offset, length, received, options.signal));
    return give(received.bytes);
  }

  #retrying<T>(received: Received, signal: AbortSignal | undefined, attempt: () => Promise<T>): Promise<T> {
    const { retries, clock, onRetry } = this.#options;
    return retrying(attempt, { retries, clock, signal, onRetry, receivedBytes: () => received.filledBytes });
  }

  async #begin(options: ReadOptions): Promise<Pinned> {
    const { signal } = options;
    const received = new Received(options.onBytes);
    const headers = { Range: `bytes=0-${HEAD_BYTES - 1}` };
    const attempt = () => this.#wire.exchange("GET", headers, signal, (answer) => this.#firstAnswer(answer, received, options));
    const beginning = await this.#retrying(received, signal, attempt);
    // Content-Range is hidden from a web page unless the server exposes it; Content-Length never is.
    const sizeBytes = beginning.sizeBytes ?? (await this.#retrying(received, signal, () => this.#askSize(beginning.validators, signal)));
    const expectedBytes = Math.min(sizeBytes, HEAD_BYTES);
    const kept = beginning.kept.byteLength < expectedBytes ? new Uint8Array(0) : beginning.kept;
    return { ...beginning, sizeBytes, kept, announced: options.onBytes !== undefined };
  }

  async #firstAnswer(answer: Answer, received: Received, options: ReadOptions): Promise<Beginning> {
    const { response } = answer;
    const validators = validatorsOf(response);
    // A header of its own costs a preflight where the answer comes from another origin, be it after a redirect.
    const ifRange = !inBrowser() || response.type === "basic" ? strongEtag(validators) : undefined;
    if (isEmptyFile(response)) return { sizeBytes: 0, validators, ifRange, kept: new Uint8Array(0) };
    if (response.status === 200) {
      const kept = await this.#readWhole(answer, received, options);
      return { sizeBytes: kept.byteLength, validators, ifRange, kept };
    }
    if (response.status !== 206) throw this.#statusError(response);
    this.#refuseEncoded(response);
    const range = this.#contentRange(response);
    const sentBytes = range && Math.min(HEAD_BYTES, range.sizeBytes ?? range.sent!.last + 1);
    if (range) this.#checkRange(range, 0, sentBytes!);
    const expected = { mostBytes: sentBytes ?? HEAD_BYTES, exact: sentBytes !== undefined };
    received.begin(expected.mostBytes);
    await readBody(answer, received, { ...expected, what: this.#words(0, expected.mostBytes) });
    return { sizeBytes: range?.sizeBytes, validators, ifRange, kept: received.bytes };
  }

  /** The file from a server that sends nothing less, if it is small enough. */
  async #readWhole(answer: Answer, received: Received, options: ReadOptions): Promise<Uint8Array> {
    const { response } = answer;
    this.#refuseEncoded(response);
    const length = response.headers.get("content-length") ?? "";
    const { wholeFileBytes } = this.#options;
    // Without a length nobody could tell a file from one that was cut short.
    if (!/^\d+$/.test(length) || Number(length) > wholeFileBytes) {
      throw this.#noRanges(
        `does not support range requests: it would send the whole file instead of a part, ${length === "" ? "without saying how long it is" : `${length} bytes`}. ` +
          `Up to ${wholeFileBytes} bytes would be read whole (option \`wholeFileBytes\`). ` +
          "Use a server that does (nearly every static file host and object store), or download the file and open it locally.",
      );
    }
    const mostBytes = Number(length);
    options.onTotal?.(mostBytes);
    received.begin(mostBytes);
    await readBody(answer, received, { mostBytes, exact: true, what: shortened(this.#wire.url) });
    return received.bytes;
  }

  async #askSize(validators: Validators, signal: AbortSignal | undefined): Promise<number> {
    // Browsers ask for what they like, and refuse this header without a word.
    const headers: Record<string, string> = inBrowser() ? {} : { "Accept-Encoding": "identity" };
    return this.#wire.exchange("HEAD", headers, signal, async ({ response }) => {
      if (!response.ok) {
        const error = this.#statusError(response);
        throw mayPass(error) ? error : this.#unknownSize(); // signed addresses are often for GET alone
      }
      this.#refuseEncoded(response);
      if (!sameVersion(validators, validatorsOf(response), true)) throw this.#changed();
      const length = response.headers.get("content-length") ?? "";
      if (/^\d+$/.test(length)) return Number(length);
      throw this.#unknownSize();
    });
  }

  /** One attempt at what is missing of a read. */
  async #readOn(pinned: Pinned, offset: number, length: number, received: Received, signal: AbortSignal | undefined): Promise<void> {
    const { etag, lastModified } = pinned.validators;
    // Only where a changed file would be noticed may the pieces of two answers be put together.
    if (etag === undefined && lastModified === undefined) received.begin(0);
    const first = offset + received.filledBytes;
    const missingBytes = offset + length - first;
    const headers: Record<string, string> = { Range: `bytes=${first}-${offset + length - 1}` };
    if (pinned.ifRange !== undefined) headers["If-Range"] = pinned.ifRange;
    await this.#wire.exchange("GET", headers, signal, async (answer) => {
      const { response } = answer;
      this.#checkAnswer(response, pinned);
      const range = this.#contentRange(response);
      if (range?.sizeBytes !== undefined && range.sizeBytes !== pinned.sizeBytes) {
        throw this.#changed(`: it had ${pinned.sizeBytes} bytes, now it has ${range.sizeBytes}`);
      }
      if (range) this.#checkRange(range, first, missingBytes);
      if (received.filledBytes === 0) received.begin(length); // memory only for a server that has agreed to send so much
      await readBody(answer, received, { mostBytes: length, exact: true, what: this.#words(offset, length) });
    });
  }

  /** Status and version of an answer to a later request. */
  #checkAnswer(response: Response, pinned: Pinned): void {
    const answered = validatorsOf(response);
    const comparedByServer = pinned.ifRange !== undefined;
    if (response.status === 206) {
      if (!sameVersion(pinned.validators, answered, comparedByServer)) throw this.#changed();
      this.#refuseEncoded(response);
      return;
    }
    if (response.status === 200) {
      // With If-Range the whole file means that it is another one, unless it says otherwise.
      if (!sameVersion(pinned.validators, answered, !comparedByServer)) throw this.#changed();
      throw this.#noRanges("sent the whole file instead of a part, although it sent a part before. Try again later.");
    }
    if (response.status === 416) throw this.#changed(" and has become shorter");
    throw this.#statusError(response);
  }

  /** The range the server says it sent; `undefined` where a web page may not see it. */
  #contentRange(response: Response): ContentRange | undefined {
    const header = response.headers.get("content-range");
    const range = header === null ? undefined : parseContentRange(header);
    if (range?.sent) return range;
    if (header !== null) throw this.#noRanges(`answered with other bytes than were asked for: ${header}.`);
    if (hidesHeaders(response)) return undefined;
    throw this.#noRanges("answered without saying which bytes it sends and how large the file is (Content-Range).");
  }

  #checkRange({ sent }: ContentRange, offset: number, length: number): void {
    if (sent!.first === offset && sent!.last === offset + length - 1) return;
    throw this.#noRanges(`answered with other bytes than were asked for: bytes ${sent!.first} to ${sent!.last} instead of ${offset} to ${offset + length - 1}.`);
  }

  /** Ranges are always asked for as they are; some servers compress them all the same. */
  #refuseEncoded(response: Response): void {
    const encoding = response.headers.get("content-encoding")?.trim() ?? "";
    if (encoding === "" || /^identity$/i.test(encoding)) return;
    const { url } = this.#wire;
    throw new ContentEncodingError(
      url,
      `The server of ${shortened(url)} sent the file compressed (${encoding}), although it was asked for as it is. Turn compression off for this file.`,
    );
  }

  #statusError(response: Response): HttpError {
    const { url } = this.#wire;
    const retryAfterMs = parseRetryAfter(response.headers.get("retry-after"), this.#options.clock.now());
    return new HttpError(url, response.status, statusMessage(url, response), retryAfterMs);
  }

  #noRanges(what: string): RangeNotSupportedError {
    const { url } = this.#wire;
    return new RangeNotSupportedError(url, `The server of ${shortened(url)} ${what}`);
  }

  #unknownSize(): RangeNotSupportedError {
    return this.#noRanges('does not tell how large the file is. For use from web pages it should send "Access-Control-Expose-Headers: Content-Range".');
  }

  #changed(how = ""): SourceChangedError {
    return new SourceChangedError(`The file at ${shortened(this.#wire.url)} was changed while it was being read${how}. Open it again.`);
  }

  #words(offset: number, length: number): string {
    return `bytes ${offset} to ${offset + length - 1} of ${shortened(this.#wire.url)}`;
  }
}

function isWhole({ kept, sizeBytes }: Pinned): boolean {
  return kept.byteLength === sizeBytes;
}

/** No range of an empty file exists: servers answer 416 with its size, or 200 with nothing. */
function isEmptyFile(response: Response): boolean {
  if (response.status === 200) return response.headers.get("content-length") === "0";
  const range = response.headers.get("content-range");
  return response.status === 416 && range !== null && parseContentRange(range)?.sizeBytes === 0;
}
