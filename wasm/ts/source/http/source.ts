/**
 * A file on a web server, read with range requests. The first request reads the head of the file, and its response also
 * contains the size and the version, so opening needs no extra request.
 */

import { NetworkError } from "../../errors.js";
import { ResponseCheck, isEmptyFile } from "./response-check.js";
import { declaredBytes, readBody } from "./body.js";
import type { Clock } from "../clock.js";
import { HEAD_BYTES } from "../../limits.js";
import { markTransferable } from "../transferable.js";
import { shortened } from "./error-message.js";
import type { IdleTimeout } from "./idle-timeout.js";
import { isBrowser } from "../environment.js";
import { ReceiveBuffer } from "./receive-buffer.js";
import { mayPass, retrying } from "../retry.js";
import type { RetryLimits } from "../retry.js";
import type { ReadOptions, Source } from "../source.js";
import { canDistinguishVersions, ifRangeOf, sameVersion, strongEtag, validatorsOf } from "./validator.js";
import type { Validators } from "./validator.js";
import type { HttpClient } from "./client.js";
import type { HttpOptions } from "./options.js";
import type { PendingResponse } from "./pending-response.js";
import type { FirstResponse, Pinned } from "./pinned.js";

export interface HttpSourceOptions extends RetryLimits {
  /** The longest file that is read as a whole if its server does not support ranges, in bytes. */
  maxFullDownloadBytes: number;
  onFullDownload: HttpOptions["onFullDownload"];
  clock: Clock;
  onRetry: () => void;
}

export class HttpSource implements Source {
  readonly #client: HttpClient;
  readonly #options: HttpSourceOptions;
  readonly #check: ResponseCheck;
  #pinned: Pinned | undefined;

  /** Creates a source, which continues with the version `pinned` if it is given. */
  constructor(client: HttpClient, options: HttpSourceOptions, pinned?: Pinned) {
    this.#client = client;
    this.#pinned = pinned;
    this.#options = options;
    this.#check = new ResponseCheck(client.url, options.clock.now);
  }

  async size(options: ReadOptions = {}): Promise<number> {
    this.#pinned ??= await this.#begin(options);
    return this.#pinned.sizeBytes;
  }

  /** The version that is read; `undefined` before the first response. */
  get pinned(): Pinned | undefined {
    return this.#pinned;
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
      if (!isWhole(pinned)) pinned.kept = new Uint8Array(0); // opening reads the head only once
      return bytes;
    }
    const buffer = new ReceiveBuffer(options.onBytes);
    await this.#fill(pinned, offset, length, buffer, options);
    return markTransferable(buffer.bytes);
  }

  #retrying<T>(buffer: ReceiveBuffer, signal: AbortSignal | undefined, attempt: (idle: IdleTimeout) => Promise<T>): Promise<T> {
    const stalled = (limitMs: number) =>
      new NetworkError(
        this.#client.url,
        `Next to nothing came from ${shortened(this.#client.url)} for ${limitMs / 1000} seconds. Try again later, or raise \`idleTimeoutMs\` and \`giveUpAfterMs\`.`,
      );
    return retrying(attempt, { ...this.#options, signal, stalled, receivedBytes: () => buffer.highestBytes, shouldRetry: (error) => mayPass(error, this.#client.hasAnswered) });
  }

  async #begin(options: ReadOptions): Promise<Pinned> {
    const { signal } = options;
    const buffer = new ReceiveBuffer(options.onBytes);
    const headers = { Range: `bytes=0-${HEAD_BYTES - 1}` };
    const first = await this.#retrying(buffer, signal, (idle) =>
      this.#client.request("GET", headers, { signal, idle }, (pending) => this.#readFirstResponse(pending, buffer, options)),
    );
    // Content-Range is hidden from a web page unless the server exposes it. Content-Length is always visible.
    const sizeBytes = first.sizeBytes ?? (await this.#retrying(buffer, signal, (idle) => this.#askSize(first.validators, signal, idle)));
    const pinned = { ...first, sizeBytes, version: strongEtag(first.validators), kept: buffer.bytes, announced: options.onBytes !== undefined };
    const headBytes = Math.min(sizeBytes, HEAD_BYTES);
    if (buffer.filledBytes < headBytes) {
      await this.#fill(pinned, 0, headBytes, buffer, options);
      pinned.kept = buffer.bytes;
    }
    return pinned;
  }

  async #readFirstResponse(pending: PendingResponse, buffer: ReceiveBuffer, options: ReadOptions): Promise<FirstResponse> {
    const { response } = pending;
    const validators = validatorsOf(response);
    // This header needs a preflight request if the response is cross-origin, even after a redirect.
    const ifRange = !isBrowser() || response.type === "basic" ? ifRangeOf(validators) : undefined;
    if (isEmptyFile(response)) return { sizeBytes: 0, validators, ifRange };
    if (response.status === 200) return { sizeBytes: await this.#readWhole(pending, buffer, options), validators, ifRange, isWhole: true };
    if (response.status !== 206) throw this.#check.statusError(response);
    this.#check.refuseEncoded(response);
    const range = this.#check.contentRange(response);
    const headBytes = Math.min(HEAD_BYTES, range?.sizeBytes ?? HEAD_BYTES);
    const maxBytes = range ? this.#check.sentBytes(range, 0, headBytes) : HEAD_BYTES;
    if (range?.sizeBytes !== undefined && maxBytes < headBytes && !canDistinguishVersions(validators)) throw this.#check.notJoinable();
    buffer.begin(headBytes);
    await readBody(pending, buffer, { maxBytes, exact: range !== undefined, what: this.#words(0, maxBytes) });
    return { sizeBytes: range?.sizeBytes, validators, ifRange };
  }

  /** Reads the whole file from a server without range support, if it is small enough, and returns its size. */
  async #readWhole(pending: PendingResponse, buffer: ReceiveBuffer, options: ReadOptions): Promise<number> {
    const { response } = pending;
    this.#check.refuseEncoded(response);
    const maxBytes = declaredBytes(pending, Number.NaN);
    const { maxFullDownloadBytes } = this.#options;
    // Without a length, a truncated file would look complete.
    if (!(maxBytes <= maxFullDownloadBytes)) {
      throw this.#check.noRanges(
        `does not support range requests: it would send the whole file, ${maxBytes >= 0 ? `${maxBytes} bytes` : "of unknown length"}. ` +
          `Up to ${maxFullDownloadBytes} bytes would be read whole (option \`maxFullDownloadBytes\`). ` +
          "Use a server that does, or download the file first.",
      );
    }
    this.#options.onFullDownload?.(this.#client.url, maxBytes);
    options.onTotal?.(maxBytes);
    buffer.begin(maxBytes);
    await readBody(pending, buffer, { maxBytes, exact: true, what: shortened(this.#client.url) });
    return maxBytes;
  }

  async #askSize(validators: Validators, signal: AbortSignal | undefined, idle: IdleTimeout): Promise<number> {
    // Browsers set this header themselves and ignore it here.
    const headers: Record<string, string> = isBrowser() ? {} : { "Accept-Encoding": "identity" };
    return this.#client.request("HEAD", headers, { signal, idle }, async (pending) => {
      const { response } = pending;
      if (!response.ok) {
        const error = this.#check.statusError(response);
        throw mayPass(error, true) ? error : this.#check.unknownSize(); // signed URLs are often valid for GET only
      }
      this.#check.refuseEncoded(response);
      const answered = validatorsOf(response);
      if (!sameVersion(validators, answered, true)) throw this.#check.other(validators, answered);
      const sizeBytes = declaredBytes(pending, -1);
      if (sizeBytes < 0) throw this.#check.unknownSize();
      return sizeBytes;
    });
  }

  /** Fills `buffer` with a range, in one or more responses. */
  async #fill(pinned: Pinned, offset: number, length: number, buffer: ReceiveBuffer, options: ReadOptions): Promise<void> {
    await this.#retrying(buffer, options.signal, async (idle) => {
      // Bytes of two responses may be joined only if a change of the file would be noticed.
      if (!canDistinguishVersions(pinned.validators)) buffer.begin(0);
      const countShort = this.#check.countShortResponses();
      for (;;) {
        await this.#ask(pinned, offset, length, buffer, options, idle);
        if (buffer.filledBytes === length) return;
        countShort();
      }
    });
  }

  /** Makes one request for the rest of a range, and appends the bytes that the server sends. */
  async #ask(pinned: Pinned, offset: number, length: number, buffer: ReceiveBuffer, { signal, onOtherVersion }: ReadOptions, idle: IdleTimeout): Promise<void> {
    const first = offset + buffer.filledBytes;
    const restBytes = offset + length - first;
    const headers: Record<string, string> = { Range: `bytes=${first}-${offset + length - 1}` };
    if (pinned.ifRange !== undefined) headers["If-Range"] = pinned.ifRange;
    await this.#client.request("GET", headers, { signal, idle }, async (pending) => {
      const { response } = pending;
      if (!this.#checkResponse(response, pinned, onOtherVersion)) {
        await response.body?.cancel();
        return;
      }
      const range = this.#check.contentRange(response);
      if (range?.sizeBytes !== undefined && range.sizeBytes !== pinned.sizeBytes) {
        throw this.#check.changed(`: ${range.sizeBytes} bytes instead of ${pinned.sizeBytes}`);
      }
      const sentBytes = range ? this.#check.sentBytes(range, first, restBytes) : restBytes;
      if (sentBytes < restBytes && !canDistinguishVersions(pinned.validators)) throw this.#check.notJoinable();
      buffer.reserve(length); // only now, since the server has agreed to send the range
      // A server may send less than requested, and a page may not see the announced length.
      const exact = range !== undefined || !canDistinguishVersions(pinned.validators);
      await readBody(pending, buffer, { maxBytes: buffer.filledBytes + sentBytes, exact, what: this.#words(offset, length) });
    });
  }

  /**
   * Checks the status and the version of a response to a later request. Returns `false` if the request has to be
   * repeated without `If-Range`.
   */
  #checkResponse(response: Response, pinned: Pinned, onOtherVersion: ReadOptions["onOtherVersion"]): boolean {
    const { status } = response;
    if (status === 416) throw this.#check.changed(" and has become shorter");
    const isPart = status === 206;
    if (!isPart && status !== 200) throw this.#check.statusError(response);
    const comparedByServer = pinned.ifRange !== undefined;
    // With If-Range, a whole file means another version, unless its validators show otherwise.
    const answered = validatorsOf(response);
    if (!sameVersion(pinned.validators, answered, comparedByServer === isPart)) {
      const error = this.#check.other(pinned.validators, answered);
      if (!onOtherVersion) throw error;
      pinned.version = undefined;
      onOtherVersion(error);
    }
    if (isPart) this.#check.refuseEncoded(response);
    else if (comparedByServer) pinned.ifRange = undefined; // The server misinterprets the condition, or has another version. From here on only this client compares the versions of responses.
    else throw this.#check.noRanges("sent the whole file, although it sent a part before. Try again later.");
    return isPart;
  }

  #words(offset: number, length: number): string {
    return `bytes ${offset} to ${offset + length - 1} of ${shortened(this.#client.url)}`;
  }
}

function isWhole({ kept, sizeBytes }: Pinned): boolean {
  return kept.byteLength === sizeBytes;
}
