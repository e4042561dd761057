/** What a `Blob` does, over bytes that are fetched and decoded when they are asked for. */

import { LimitError } from "../errors.js";
import { MOST_BYTES } from "../size.js";
import type { Source } from "../source/source.js";

/** How much a stream reads at once, in bytes. */
const PIECE_BYTES = 4 << 20;

/** What reading may be given. */
export interface BlobReadOptions {
  /** Stops the read; it then rejects with the reason of the signal. */
  signal?: AbortSignal;
}

/**
 * A safetensors file to be read like a `Blob`, in slices. It is no `Blob`: those have all their bytes beforehand.
 * So it cannot be put into a form, a worker message, another `Blob` or an object URL.
 */
export class SafetensorsBlob {
  /** Length, in bytes. */
  readonly size: number;
  /** Media type. */
  readonly type: string;
  /** Whether all of it is, byte for byte, the file that was packed (or the plain one); else its header was written by this package. */
  readonly isOriginal: boolean;
  readonly #source: Source;
  readonly #begin: number;

  /** @internal */
  constructor(source: Source, begin: number, end: number, type: string, isOriginal: boolean) {
    this.#source = source;
    this.#begin = begin;
    this.size = end - begin;
    this.type = type;
    this.isOriginal = isOriginal;
  }

  /** A part of it, by the rules of `Blob.slice`; reads nothing. */
  slice(start = 0, end = this.size, contentType = ""): SafetensorsBlob {
    const from = this.#position(start);
    const to = Math.max(from, this.#position(end));
    return new SafetensorsBlob(this.#source, this.#begin + from, this.#begin + to, contentType.toLowerCase(), this.isOriginal);
  }

  /** All bytes, in memory of their own. */
  async arrayBuffer(options: BlobReadOptions = {}): Promise<ArrayBuffer> {
    return (await this.#read(0, this.size, options)).buffer;
  }

  /** All bytes, in memory of their own. */
  bytes(options: BlobReadOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    return this.#read(0, this.size, options);
  }

  /** All bytes as UTF-8. */
  async text(options: BlobReadOptions = {}): Promise<string> {
    return new TextDecoder("utf-8", { ignoreBOM: false }).decode(await this.#read(0, this.size, options));
  }

  /** All bytes, piece by piece; cancelling it stops the read under way. */
  stream(options: BlobReadOptions = {}): ReadableStream<Uint8Array<ArrayBuffer>> {
    const cancelled = new AbortController();
    const signal = options.signal ? AbortSignal.any([options.signal, cancelled.signal]) : cancelled.signal;
    let position = 0;
    return new ReadableStream(
      {
        pull: async (controller) => {
          const end = Math.min(this.size, position + PIECE_BYTES);
          if (end > position) controller.enqueue(await this.#read(position, end, { signal }));
          position = end;
          if (position === this.size) controller.close();
        },
        cancel: (reason) => cancelled.abort(reason),
      },
      // Nothing is read before someone asks.
      { highWaterMark: 0 },
    );
  }

  async #read(begin: number, end: number, { signal }: BlobReadOptions): Promise<Uint8Array<ArrayBuffer>> {
    signal?.throwIfAborted();
    const lengthBytes = end - begin;
    if (lengthBytes > MOST_BYTES) {
      throw new LimitError(`${lengthBytes} bytes are too many for one array; read slices of at most ${MOST_BYTES} bytes, or the stream.`);
    }
    if (lengthBytes === 0) return new Uint8Array(0);
    const bytes = await this.#source.read(this.#begin + begin, lengthBytes, signal && { signal });
    signal?.throwIfAborted();
    return bytes as Uint8Array<ArrayBuffer>;
  }

  /** A position as `Blob.slice` understands it: from the end if negative, never outside. */
  #position(given: number): number {
    const whole = Number.isNaN(given) ? 0 : Math.trunc(given);
    return whole < 0 ? Math.max(this.size + whole, 0) : Math.min(whole, this.size);
  }
}
