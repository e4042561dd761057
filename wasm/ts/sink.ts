/** Destinations of packed bytes: a `Blob`, or the caller's stream. */

import { abortable } from "./source/abortable.js";

/** Receives the pieces of a file in order. */
export interface Sink {
  write(piece: Uint8Array<ArrayBuffer>): Promise<void>;
  /** Puts a piece in front of all others. Absent where pieces are gone once they are written. */
  prepend?(piece: Uint8Array<ArrayBuffer>): void;
}

/** Size at which pieces become a `Blob`, in bytes: browsers move a large `Blob` out of memory, but not many small pieces. */
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

  constructor(stream: WritableStream<Uint8Array>) {
    this.#writer = stream.getWriter();
    // Every write reports it again; here nothing may be listening yet.
    this.#writer.closed.catch(() => {});
  }

  /** Resolves when the piece is written, so that only one is in memory. */
  write(piece: Uint8Array<ArrayBuffer>): Promise<void> {
    return this.#writer.write(piece);
  }

  async close(): Promise<void> {
    await this.#writer.close();
    this.#writer.releaseLock();
  }

  /**
   * Aborts the stream: it takes nothing more and is not closed. An error of the stream itself is known already. A write that
   * is under way, which the stream waits for, does not hold up an aborted `signal`.
   */
  async abort(reason: unknown, signal: AbortSignal | undefined): Promise<void> {
    await abortable(this.#writer.abort(reason), signal).catch(() => {});
    this.#writer.releaseLock();
  }
}

/** Writes all of a file that had to be complete first. */
export async function pour(file: Blob, sink: Sink, signal: AbortSignal | undefined): Promise<void> {
  for (let offset = 0; offset < file.size; offset += BLOB_BYTES) {
    signal?.throwIfAborted();
    const piece = await file.slice(offset, offset + BLOB_BYTES).arrayBuffer();
    await abortable(sink.write(new Uint8Array(piece)), signal);
  }
}
