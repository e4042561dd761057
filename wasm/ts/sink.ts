/** Destinations of packed bytes: a `Blob`, or the caller's stream. */

import { InvalidInputError } from "./errors.js";
import { abortable } from "./source/abortable.js";

/** Receives the chunks of a file in order. */
export interface Sink {
  write(piece: Uint8Array<ArrayBuffer>): Promise<void>;
  /** Inserts a chunk before all others. Absent if chunks cannot be changed once they are written. */
  prepend?(piece: Uint8Array<ArrayBuffer>): void;
}

/**
 * The size at which buffered chunks become a `Blob`, in bytes: browsers move a large `Blob` out of memory, but not many
 * small ones.
 */
const BLOB_BYTES = 4 << 20;

export class BlobSink implements Sink {
  readonly #blobs: Blob[] = [];
  #pieces: Uint8Array<ArrayBuffer>[] = [];
  #piecesBytes = 0;

  async write(piece: Uint8Array<ArrayBuffer>): Promise<void> {
    this.#pieces.push(piece);
    this.#piecesBytes += piece.byteLength;
    if (this.#piecesBytes >= BLOB_BYTES) this.#moveToBlob();
  }

  prepend(piece: Uint8Array<ArrayBuffer>): void {
    this.#blobs.unshift(new Blob([piece]));
  }

  blob(): Blob {
    this.#moveToBlob();
    return new Blob(this.#blobs, { type: "application/octet-stream" });
  }

  #moveToBlob(): void {
    this.#blobs.push(new Blob(this.#pieces));
    this.#pieces = [];
    this.#piecesBytes = 0;
  }
}

export class StreamSink implements Sink {
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;

  /** Throws an `InvalidInputError` if `stream` is not a `WritableStream`. */
  constructor(stream: WritableStream<Uint8Array>) {
    if (typeof stream.getWriter !== "function") {
      throw new InvalidInputError("`to` takes a WritableStream. Convert a stream of Node with `Writable.toWeb` from node:stream.");
    }
    this.#writer = stream.getWriter();
    // Every write reports a failure again. Without this handler, a failure before the first write would be an unhandled
    // rejection.
    this.#writer.closed.catch(() => {});
  }

  /** Resolves when the chunk is written, so that only one chunk is in memory. */
  write(piece: Uint8Array<ArrayBuffer>): Promise<void> {
    return this.#writer.write(piece);
  }

  async close(): Promise<void> {
    await this.#writer.close();
    this.#writer.releaseLock();
  }

  /**
   * Aborts the stream: it accepts no more data and is not closed. An error of the stream itself is ignored, since its
   * write has reported it. If `signal` aborts, this does not wait for a pending write.
   */
  async abort(reason: unknown, signal: AbortSignal | undefined): Promise<void> {
    await abortable(this.#writer.abort(reason), signal).catch(() => {});
    this.#writer.releaseLock();
  }
}

/** Copies a complete file to `sink` in chunks. */
export async function pour(file: Blob, sink: Sink, signal: AbortSignal | undefined): Promise<void> {
  for (let offset = 0; offset < file.size; offset += BLOB_BYTES) {
    signal?.throwIfAborted();
    const piece = await file.slice(offset, offset + BLOB_BYTES).arrayBuffer();
    await abortable(sink.write(new Uint8Array(piece)), signal);
  }
}
