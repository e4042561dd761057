/**
 * A file on a web server, read with range requests. The first request asks for the head of
 * the file and learns its size and version from the answer, so that opening costs no request of its own.
 */

import { NetworkError } from "../errors.js";
import { AnswerCheck, isEmptyFile } from "./answer-check.js";
import { readBody } from "./body.js";
import type { Clock } from "./clock.js";
import { give } from "./given.js";
import { shortened } from "./http-message.js";
import type { IdleTimeout } from "./idle-timeout.js";
import { inBrowser } from "./page.js";
import { Received } from "./received.js";
import { mayPass, retrying } from "./retry.js";
import type { Patience } from "./retry.js";
import type { ReadOptions, Source } from "./source.js";
import { distinguishVersions, ifRangeOf, sameVersion, strongEtag, validatorsOf } from "./validator.js";
import type { Validators } from "./validator.js";
import type { Answer, Wire } from "./wire.js";

/** Length of the first read, in bytes: enough to recognise any file, and to hold most headers whole. */
const HEAD_BYTES = 32768;

export interface HttpSourceOptions extends Patience {
  /** Up to this length a file is read whole if its server does not send parts, in bytes. */
  wholeFileBytes: number;
  clock: Clock;
  onRetry: () => void;
}

/** What the first answer says. */
interface FirstAnswer {
  /** Size of the file, in bytes, where the answer says it. */
  sizeBytes: number | undefined;
  validators: Validators;
  /** Sent with every range as `If-Range`, where that is worth something and costs nothing. */
  ifRange: string | undefined;
}

interface Pinned extends FirstAnswer {
  sizeBytes: number;
  /** The head, or the whole file from a server that does not send parts. */
  kept: Uint8Array;
  /** Whether the caller was told of the head when it arrived. */
  announced: boolean;
}

export class HttpSource implements Source {
  readonly #wire: Wire;
  readonly #options: HttpSourceOptions;
  readonly #check: AnswerCheck;
  #pinned: Pinned | undefined;

  constructor(wire: Wire, options: HttpSourceOptions) {
    this.#wire = wire;
    this.#options = options;
    this.#check = new AnswerCheck(wire.url, options.clock.now);
  }

  async size(options: ReadOptions = {}): Promise<number> {
    this.#pinned ??= await this.#begin(options);
    return this.#pinned.sizeBytes;
  }

  /** What tells this version of the file from all others, if there is such a thing. */
  get version(): string | undefined {
    return this.#pinned && strongEtag(this.#pinned.validators);
  }

  /** Returns whether a read will be answered from memory. */
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
    await this.#fill(pinned, offset, length, received, options.signal);
    return give(received.bytes);
  }

  #retrying<T>(received: Received, signal: AbortSignal | undefined, attempt: (idle: IdleTimeout) => Promise<T>): Promise<T> {
    const stalled = (limitMs: number) =>
      new NetworkError(
        this.#wire.url,
        `Next to nothing came from ${shortened(this.#wire.url)} for ${limitMs / 1000} seconds. Try again later, or allow more time in the options \`stallMs\` and \`giveUpAfterMs\`.`,
      );
    return retrying(attempt, { ...this.#options, signal, stalled, receivedBytes: () => received.highestBytes, hasAnswered: () => this.#wire.hasAnswered });
  }

  async #begin(options: ReadOptions): Promise<Pinned> {
    const { signal } = options;
    const received = new Received(options.onBytes);
    const headers = { Range: `bytes=0-${HEAD_BYTES - 1}` };
    const first = await this.#retrying(received, signal, (idle) =>
      this.#wire.exchange("GET", headers, { signal, idle }, (answer) => this.#firstAnswer(answer, received, options)),
    );
    // Content-Range is hidden from a web page unless the server exposes it; Content-Length never is.
    const sizeBytes = first.sizeBytes ?? (await this.#retrying(received, signal, (idle) => this.#askSize(first.validators, signal, idle)));
    const pinned = { ...first, sizeBytes, kept: received.bytes, announced: options.onBytes !== undefined };
    const headBytes = Math.min(sizeBytes, HEAD_BYTES);
    if (received.filledBytes < headBytes) {
      await this.#fill(pinned, 0, headBytes, received, signal);
      pinned.kept = received.bytes;
    }
    return pinned;
  }

  async #firstAnswer(answer: Answer, received: Received, options: ReadOptions): Promise<FirstAnswer> {
    const { response } = answer;
    const validators = validatorsOf(response);
    // A header of its own costs a preflight where the answer comes from another origin, be it after a redirect.
    const ifRange = !inBrowser() || response.type === "basic" ? ifRangeOf(validators) : undefined;
    if (isEmptyFile(response)) return { sizeBytes: 0, validators, ifRange };
    if (response.status === 200) return { sizeBytes: await this.#readWhole(answer, received, options), validators, ifRange };
    if (response.status !== 206) throw this.#check.statusError(response);
    this.#check.refuseEncoded(response);
    const range = this.#check.contentRange(response);
    const headBytes = Math.min(HEAD_BYTES, range?.sizeBytes ?? HEAD_BYTES);
    const mostBytes = range ? this.#check.sentBytes(range, 0, headBytes) : HEAD_BYTES;
    if (range?.sizeBytes !== undefined && mostBytes < headBytes && !distinguishVersions(validators)) throw this.#check.notJoinable();
    received.begin(headBytes);
    await readBody(answer, received, { mostBytes, exact: range !== undefined, what: this.#words(0, mostBytes) });
    return { sizeBytes: range?.sizeBytes, validators, ifRange };
  }

  /** Reads the file from a server that sends nothing less, if it is small enough, and returns its size. */
  async #readWhole(answer: Answer, received: Received, options: ReadOptions): Promise<number> {
    const { response } = answer;
    this.#check.refuseEncoded(response);
    const length = response.headers.get("content-length") ?? "";
    const { wholeFileBytes } = this.#options;
    // Without a length nobody could tell a file from one that was cut short.
    if (!/^\d+$/.test(length) || Number(length) > wholeFileBytes) {
      throw this.#check.noRanges(
        `does not support range requests: it would send the whole file instead of a part, ${length === "" ? "without saying how long it is" : `${length} bytes`}. ` +
          `Up to ${wholeFileBytes} bytes would be read whole (option \`wholeFileBytes\`). ` +
          "Use a server that does (nearly every static file host and object store), or download the file and open it locally.",
      );
    }
    const mostBytes = Number(length);
    options.onTotal?.(mostBytes);
    received.begin(mostBytes);
    await readBody(answer, received, { mostBytes, exact: true, what: shortened(this.#wire.url) });
    return mostBytes;
  }

  async #askSize(validators: Validators, signal: AbortSignal | undefined, idle: IdleTimeout): Promise<number> {
    // Browsers ask for what they like, and refuse this header without a word.
    const headers: Record<string, string> = inBrowser() ? {} : { "Accept-Encoding": "identity" };
    return this.#wire.exchange("HEAD", headers, { signal, idle }, async ({ response }) => {
      if (!response.ok) {
        const error = this.#check.statusError(response);
        throw mayPass(error, true) ? error : this.#check.unknownSize(); // signed addresses are often for GET alone
      }
      this.#check.refuseEncoded(response);
      if (!sameVersion(validators, validatorsOf(response), true)) throw this.#check.changed();
      const length = response.headers.get("content-length") ?? "";
      if (/^\d+$/.test(length)) return Number(length);
      throw this.#check.unknownSize();
    });
  }

  /** Adds what `received` lacks of a range, in as many answers as the server makes of it. */
  async #fill(pinned: Pinned, offset: number, length: number, received: Received, signal: AbortSignal | undefined): Promise<void> {
    await this.#retrying(received, signal, async (idle) => {
      // Only where a changed file would be noticed may the pieces of two answers be put together.
      if (!distinguishVersions(pinned.validators)) received.begin(0);
      const countShort = this.#check.shortAnswers();
      for (;;) {
        await this.#ask(pinned, offset, length, received, { signal, idle });
        if (received.filledBytes === length) return;
        countShort();
      }
    });
  }

  /** Makes one request for the rest of a range, and adds what the server sends of it. */
  async #ask(pinned: Pinned, offset: number, length: number, received: Received, limits: { signal: AbortSignal | undefined; idle: IdleTimeout }): Promise<void> {
    const first = offset + received.filledBytes;
    const restBytes = offset + length - first;
    const headers: Record<string, string> = { Range: `bytes=${first}-${offset + length - 1}` };
    if (pinned.ifRange !== undefined) headers["If-Range"] = pinned.ifRange;
    await this.#wire.exchange("GET", headers, limits, async (answer) => {
      const { response } = answer;
      this.#checkAnswer(response, pinned);
      const range = this.#check.contentRange(response);
      if (range?.sizeBytes !== undefined && range.sizeBytes !== pinned.sizeBytes) {
        throw this.#check.changed(`: it had ${pinned.sizeBytes} bytes, now it has ${range.sizeBytes}`);
      }
      const sentBytes = range ? this.#check.sentBytes(range, first, restBytes) : restBytes;
      if (sentBytes < restBytes && !distinguishVersions(pinned.validators)) throw this.#check.notJoinable();
      received.reserve(length); // memory only for a server that has agreed to send so much
      await readBody(answer, received, { mostBytes: received.filledBytes + sentBytes, exact: true, what: this.#words(offset, length) });
    });
  }

  /** Checks status and version of an answer to a later request. */
  #checkAnswer(response: Response, pinned: Pinned): void {
    const answered = validatorsOf(response);
    const comparedByServer = pinned.ifRange !== undefined;
    if (response.status === 206) {
      if (!sameVersion(pinned.validators, answered, comparedByServer)) throw this.#check.changed();
      this.#check.refuseEncoded(response);
      return;
    }
    if (response.status === 200) {
      // With If-Range the whole file means that it is another one, unless it says otherwise.
      if (!sameVersion(pinned.validators, answered, !comparedByServer)) throw this.#check.changed();
      throw this.#check.noRanges("sent the whole file instead of a part, although it sent a part before. Try again later.");
    }
    if (response.status === 416) throw this.#check.changed(" and has become shorter");
    throw this.#check.statusError(response);
  }

  #words(offset: number, length: number): string {
    return `bytes ${offset} to ${offset + length - 1} of ${shortened(this.#wire.url)}`;
  }
}

function isWhole({ kept, sizeBytes }: Pinned): boolean {
  return kept.byteLength === sizeBytes;
}
