/** Reads ahead: fetches the next bytes while the caller processes the previous ones. */

import type { ReadOptions, Source } from "./source.js";

/**
 * The length of a read-ahead request, in bytes. Small tensors share a request, and even on a fast connection
 * transferring this length takes much longer than a round trip.
 */
const CHUNK_BYTES = 4 << 20;

/** The number of bytes after the last read that are in memory or being fetched. */
const AHEAD_BYTES = 2 * CHUNK_BYTES;

/**
 * The longest read that is assembled from bytes read ahead and a request for the rest, in bytes. A longer one is
 * usually read in one request, with nothing read ahead, so that its bytes are in memory only once.
 */
const MAX_JOINED_BYTES = 4 * CHUNK_BYTES;

/** A source that reads ahead until it is stopped. */
export interface AheadSource extends Source {
  /** Aborts all reads that no caller is waiting for. */
  stop(): void;
}

interface Chunk {
  offset: number;
  end: number;
  bytes: Promise<Uint8Array>;
}

/**
 * Returns `source` for a caller that reads it from start to end, one read at a time. A read at another position needs a
 * request of its own.
 */
export function withReadAhead(source: Source, signal: AbortSignal | undefined): AheadSource {
  return new ReadAhead(source, signal);
}

class ReadAhead implements AheadSource {
  readonly #source: Source;
  readonly #stop = new AbortController();
  readonly #signal: AbortSignal;
  #sizeBytes = 0;
  /** The end of the last read, in bytes from the start of the source. */
  #position = -1;
  /** The chunks that were read ahead: in order, without gaps, starting at or shortly before `#position`. */
  #chunks: Chunk[] = [];
  /** Aborts the requests for `#chunks`. */
  #stopChunks = new AbortController();
  #chunksSignal: AbortSignal | undefined;

  constructor(source: Source, signal: AbortSignal | undefined) {
    this.#source = source;
    this.#signal = signal ? AbortSignal.any([signal, this.#stop.signal]) : this.#stop.signal;
  }

  async size(options?: ReadOptions): Promise<number> {
    return (this.#sizeBytes = await this.#source.size(options));
  }

  get pinned(): Source["pinned"] {
    return this.#source.pinned;
  }

  async read(offset: number, length: number, options: ReadOptions = {}): Promise<Uint8Array> {
    const end = offset + length;
    const continues = offset === this.#position;
    this.#position = end;
    if (!continues) this.#drop();
    const chunks = this.#chunks.filter((chunk) => chunk.offset < end);
    const covered = chunks.at(-1)?.end ?? offset;
    this.#chunks = this.#chunks.filter((chunk) => chunk.end > end);
    if (length > MAX_JOINED_BYTES) return this.#readLong(chunks, offset, length, options);
    const rest = covered < end ? this.#source.read(covered, end - covered, options) : undefined;
    if (continues) this.#fetchAhead(Math.max(covered, end));
    const parts = await Promise.all([...chunks.map((chunk) => part(chunk, offset, end, options)), ...(rest ? [rest] : [])]);
    return joined(parts);
  }

  stop(): void {
    this.#stop.abort();
  }

  /** Aborts the read-ahead requests, whose bytes are not needed after a jump to another position. */
  #drop(): void {
    this.#stopChunks.abort();
    this.#stopChunks = new AbortController();
    this.#chunksSignal = undefined;
    this.#chunks = [];
  }

  /**
   * Reads a long range: in one request if none of it was read ahead. Otherwise the rest is read in several sequential
   * requests, and the bytes of each response are copied into the result.
   */
  async #readLong(chunks: Chunk[], offset: number, length: number, options: ReadOptions): Promise<Uint8Array> {
    if (chunks.length === 0) return this.#source.read(offset, length, options);
    const all = new Uint8Array(length);
    let position = 0;
    for (let chunk = chunks.shift(); chunk; chunk = chunks.shift()) {
      const bytes = await part(chunk, offset, offset + length, options);
      all.set(bytes, position);
      position += bytes.byteLength;
    }
    while (position < length) {
      const bytes = await this.#source.read(offset + position, Math.min(MAX_JOINED_BYTES, length - position), options);
      all.set(bytes, position);
      position += bytes.byteLength;
    }
    return all;
  }

  #fetchAhead(from: number): void {
    let offset = this.#chunks.at(-1)?.end ?? from;
    const until = Math.min(this.#position + AHEAD_BYTES, this.#sizeBytes);
    while (offset < until) {
      const signal = (this.#chunksSignal ??= AbortSignal.any([this.#signal, this.#stopChunks.signal]));
      const end = Math.min(offset + CHUNK_BYTES, this.#sizeBytes);
      const bytes = this.#source.read(offset, end - offset, { signal });
      bytes.catch(() => {}); // the read that needs the chunk, if any, reports the failure
      this.#chunks.push({ offset, end, bytes });
      offset = end;
    }
  }
}

/**
 * Returns the bytes of `chunk` from `begin` to `end`. Only these bytes count as progress, because the rest of the chunk
 * may never be needed.
 */
async function part(chunk: Chunk, begin: number, end: number, { onBytes }: ReadOptions): Promise<Uint8Array> {
  const bytes = (await chunk.bytes).subarray(Math.max(begin - chunk.offset, 0), end - chunk.offset);
  onBytes?.(bytes.byteLength);
  return bytes;
}

function joined(parts: Uint8Array[]): Uint8Array {
  if (parts.length === 1) return parts[0]!;
  const all = new Uint8Array(parts.reduce((sum, { byteLength }) => sum + byteLength, 0));
  let position = 0;
  for (const part of parts) {
    all.set(part, position);
    position += part.byteLength;
  }
  return all;
}
