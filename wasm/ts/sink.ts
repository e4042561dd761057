/** Where packed bytes go: into a `Blob`, or a stream of the caller's. */

/** Takes the pieces of a file in order. */
export interface Sink {
  write(piece: Uint8Array<ArrayBuffer>): Promise<void>;
}

/** Pieces are handed over when they come to this much: browsers move a large `Blob` out of memory, not a list of small ones. */
const HANDED_OVER_BYTES = 4 << 20;

export class BlobSink implements Sink {
  readonly #blobs: Blob[] = [];
  #pieces: Uint8Array<ArrayBuffer>[] = [];
  #piecesBytes = 0;

  async write(piece: Uint8Array<ArrayBuffer>): Promise<void> {
    this.#pieces.push(piece);
    this.#piecesBytes += piece.byteLength;
    if (this.#piecesBytes >= HANDED_OVER_BYTES) this.#handOver();
  }

  blob(): Blob {
    this.#handOver();
    return new Blob(this.#blobs, { type: "application/octet-stream" });
  }

  #handOver(): void {
    this.#blobs.push(new Blob(this.#pieces));
    this.#pieces = [];
    this.#piecesBytes = 0;
  }
}

export class StreamSink implements Sink {
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;

  constructor(stream: WritableStream<Uint8Array>) {
    this.#writer = stream.getWriter();
    // Told again by every write; here nobody may be listening yet.
    this.#writer.closed.catch(() => {});
  }

  /** Waits until the piece is written, so that no more than one is in memory. */
  write(piece: Uint8Array<ArrayBuffer>): Promise<void> {
    return this.#writer.write(piece);
  }

  async close(): Promise<void> {
    await this.#writer.close();
    this.#writer.releaseLock();
  }

  /** Tells the stream that the file will not be completed; what the stream itself has to complain about is known already. */
  async abort(reason: unknown): Promise<void> {
    await this.#writer.abort(reason).catch(() => {});
    this.#writer.releaseLock();
  }
}
