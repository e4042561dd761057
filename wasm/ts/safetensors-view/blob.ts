/** A class with the reading methods of `Blob`, over bytes that are fetched and decoded on demand. */

import { LimitError } from "../errors.js";
import { MAX_BYTES } from "../limits.js";
import type { Source } from "../source/source.js";

/** The chunk size of a stream, in bytes. */
const PIECE_BYTES = 4 << 20;

/** Options of the methods that read. */
export interface BlobReadOptions {
  /** Aborts the read, which then rejects with the reason of the signal. */
  signal?: AbortSignal;
}

/**
 * A safetensors file that is read like a `Blob`, in slices. It is not a `Blob`, because a `Blob` has all its bytes
 * beforehand, so it cannot be put into a form, a worker message, another `Blob` or an object URL.
 */
export class SafetensorsBlob {
  /** Length of the file or slice, in bytes. */
  readonly size: number;
  /** The media type. */
  readonly type: string;
  /** True if the file is byte for byte the one that was packed, or the plain file itself. Otherwise its header is generated. */
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

  /** Returns a slice, by the rules of `Blob.slice`, without reading any bytes. */
  slice(start = 0, end = this.size, contentType = ""): SafetensorsBlob {
    const from = this.#position(start);
    const to = Math.max(from, this.#position(end));
    return new SafetensorsBlob(this.#source, this.#begin + from, this.#begin + to, contentType.toLowerCase(), this.isOriginal);
  }

  /** Returns all bytes in a new buffer. Rejects with a `LimitError` if they are too many for one buffer. */
  async arrayBuffer(options: BlobReadOptions = {}): Promise<ArrayBuffer> {
    return (await this.#read(0, this.size, options)).buffer;
  }

  /** Returns all bytes in a new array. Rejects like `arrayBuffer`. */
  bytes(options: BlobReadOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    return this.#read(0, this.size, options);
  }

  /** Returns all bytes decoded as UTF-8. */
  async text(options: BlobReadOptions = {}): Promise<string> {
    return new TextDecoder("utf-8", { ignoreBOM: false }).decode(await this.#read(0, this.size, options));
  }

  /** Returns a stream of all bytes, which are read on demand. Cancelling the stream aborts the current read. */
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
      // A high-water mark of 0 reads nothing before the consumer requests it.
      { highWaterMark: 0 },
    );
  }

  async #read(begin: number, end: number, { signal }: BlobReadOptions): Promise<Uint8Array<ArrayBuffer>> {
    signal?.throwIfAborted();
    const lengthBytes = end - begin;
    if (lengthBytes > MAX_BYTES) {
      throw new LimitError(`${lengthBytes} bytes are too many for one array; read slices of at most ${MAX_BYTES} bytes, or the stream.`);
    }
    if (lengthBytes === 0) return new Uint8Array(0);
    const bytes = await this.#source.read(this.#begin + begin, lengthBytes, signal && { signal });
    signal?.throwIfAborted();
    return bytes as Uint8Array<ArrayBuffer>;
  }

  /** Returns a position by the rules of `Blob.slice`: a negative one counts from the end, and all are clamped. */
  #position(given: number): number {
    const whole = Number.isNaN(given) ? 0 : Math.trunc(given);
    return whole < 0 ? Math.max(this.size + whole, 0) : Math.min(whole, this.size);
  }
}
