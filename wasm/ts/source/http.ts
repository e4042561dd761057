/**
 * A file on a web server, read with range requests. The first request asks for the head of
 * the file and learns the size from its answer, so that opening costs no request of its own.
 */

import { HttpError, NetworkError, RangeNotSupportedError, SourceChangedError } from "../errors.js";
import { discard, readBody } from "./body.js";
import { parseContentRange } from "./content-range.js";
import { shortened, statusMessage } from "./http-message.js";
import type { ReadOptions, Source } from "./source.js";
import type { Traffic } from "./traffic.js";

/** Length of the first read, in bytes: enough to recognise any file, and to hold most headers whole. */
const HEAD_BYTES = 32768;

export interface HttpOptions {
  fetch: typeof globalThis.fetch;
  headers: Headers | Record<string, string> | [string, string][] | undefined;
  traffic: Traffic;
}

export class HttpSource implements Source {
  readonly #url: string;
  readonly #options: HttpOptions;
  #sizeBytes: number | undefined;
  /** The head that came with the size; given away once, to the read that asks for it. */
  #head: Uint8Array | undefined;

  constructor(url: URL, options: HttpOptions) {
    this.#url = url.href;
    this.#options = options;
  }

  async size(options: ReadOptions = {}): Promise<number> {
    if (this.#sizeBytes === undefined) await this.#readHead(options);
    return this.#sizeBytes!;
  }

  async read(offset: number, length: number, options: ReadOptions = {}): Promise<Uint8Array> {
    if (offset === 0 && this.#head && length <= this.#head.byteLength) {
      const head = this.#head.subarray(0, length);
      this.#head = undefined;
      return head;
    }
    return this.#options.traffic.request(async () => {
      const response = await this.#get(offset, length, options.signal);
      this.#checkRange(response, offset, length);
      return this.#body(response, offset, length, true, options);
    });
  }

  async #readHead(options: ReadOptions): Promise<void> {
    await this.#options.traffic.request(async () => {
      const response = await this.#get(0, HEAD_BYTES, options.signal, true);
      if (response.status !== 206) {
        this.#sizeBytes = 0;
        return;
      }
      const range = this.#contentRange(response);
      this.#sizeBytes = range?.sizeBytes;
      const length = Math.min(HEAD_BYTES, this.#sizeBytes ?? HEAD_BYTES);
      if (this.#sizeBytes !== undefined) this.#checkRange(response, 0, length);
      this.#head = await this.#body(response, 0, length, this.#sizeBytes !== undefined, options);
    });
    // Content-Range is hidden from a web page unless the server exposes it; Content-Length never is.
    this.#sizeBytes ??= await this.#options.traffic.request(() => this.#askSize(options.signal));
  }

  /** An answer with status 206. With `mayBeEmpty`, also the answers that an empty file gets. */
  async #get(offset: number, length: number, signal: AbortSignal | undefined, mayBeEmpty = false): Promise<Response> {
    const headers = new Headers(this.#options.headers);
    headers.set("Range", `bytes=${offset}-${offset + length - 1}`);
    const response = await this.#fetch({ headers }, signal);
    if (response.status === 206) return response;
    discard(response);
    if (mayBeEmpty && isEmptyFile(response)) return response;
    if (response.status === 200) {
      throw new RangeNotSupportedError(
        this.#url,
        `The server of ${shortened(this.#url)} does not support range requests: it would send the whole file instead of a part. ` +
          "Use a server that does (nearly every static file host and object store), or download the file and open it locally.",
      );
    }
    if (response.status === 416) {
      throw new SourceChangedError(`The server has no bytes ${offset} to ${offset + length - 1} of ${shortened(this.#url)} any more: the file has become shorter. Open it again.`);
    }
    throw new HttpError(this.#url, response.status, statusMessage(this.#url, response));
  }

  async #askSize(signal: AbortSignal | undefined): Promise<number> {
    const response = await this.#fetch({ method: "HEAD", headers: new Headers(this.#options.headers) }, signal);
    const length = response.ok ? response.headers.get("content-length") : null;
    if (length !== null && /^\d+$/.test(length)) return Number(length);
    throw new RangeNotSupportedError(
      this.#url,
      `The server of ${shortened(this.#url)} does not tell how large the file is. ` +
        'For use from web pages it should send "Access-Control-Expose-Headers: Content-Range".',
    );
  }

  async #fetch(init: RequestInit, signal: AbortSignal | undefined): Promise<Response> {
    const { fetch } = this.#options; // called without a receiver, as browsers demand of their own fetch
    try {
      // A browser's cache would answer a range in pieces, of which some may be of an older file.
      return await fetch(this.#url, { ...init, cache: "no-store", ...(signal && { signal }) });
    } catch (cause) {
      signal?.throwIfAborted();
      throw new NetworkError(
        this.#url,
        `Could not reach ${shortened(this.#url)}. Check the address and the connection; for use from web pages the server must also allow it (CORS).`,
        { cause },
      );
    }
  }

  /** The range the server says it sent; `undefined` where a web page may not see it. */
  #contentRange(response: Response) {
    const header = response.headers.get("content-range");
    const range = header === null ? undefined : parseContentRange(header);
    if (header !== null && !range?.sent) throw this.#wrongRange(response, header);
    return range;
  }

  #checkRange(response: Response, offset: number, length: number): void {
    const range = this.#contentRange(response);
    if (!range?.sent) return;
    if (range.sizeBytes !== undefined && range.sizeBytes !== this.#sizeBytes) {
      discard(response);
      throw new SourceChangedError(
        `The file at ${shortened(this.#url)} was changed while it was being read: it had ${this.#sizeBytes} bytes, now it has ${range.sizeBytes}. Open it again.`,
      );
    }
    if (range.sent.first !== offset || range.sent.last !== offset + length - 1) {
      throw this.#wrongRange(response, `bytes ${range.sent.first} to ${range.sent.last} instead of ${offset} to ${offset + length - 1}`);
    }
  }

  #wrongRange(response: Response, got: string): RangeNotSupportedError {
    discard(response);
    return new RangeNotSupportedError(this.#url, `The server of ${shortened(this.#url)} answered with other bytes than were asked for: ${got}.`);
  }

  #body(response: Response, offset: number, length: number, exact: boolean, options: ReadOptions): Promise<Uint8Array> {
    return readBody(response, {
      mostBytes: length,
      exact,
      what: `bytes ${offset} to ${offset + length - 1} of ${shortened(this.#url)}`,
      signal: options.signal,
      arrived: (bytes) => {
        this.#options.traffic.arrived(bytes);
        options.onBytes?.(bytes);
      },
    });
  }
}

/** No range of an empty file exists: servers answer 416 with its size, or 200 with nothing. */
function isEmptyFile(response: Response): boolean {
  if (response.status === 200) return response.headers.get("content-length") === "0";
  const range = response.headers.get("content-range");
  return response.status === 416 && range !== null && parseContentRange(range)?.sizeBytes === 0;
}
