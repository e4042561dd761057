/** A `Blob` as a source: a `File` that a person picked, bytes in memory, or a subclass that fetches its bytes when they are read. */

import { ReadError } from "../errors.js";
import { markTransferable } from "./ownership.js";
import type { ReadOptions, Source } from "./source.js";

export class BlobSource implements Source {
  readonly #blob: Blob;

  constructor(blob: Blob) {
    this.#blob = blob;
  }

  size(): number {
    return this.#blob.size;
  }

  async read(offset: number, length: number, { signal }: ReadOptions = {}): Promise<Uint8Array> {
    try {
      const part = this.#blob.slice(offset, offset + length);
      // Only the stream of a Blob can be stopped, which is slower for one that is there already.
      const isLazy = part.arrayBuffer !== Blob.prototype.arrayBuffer;
      return markTransferable(isLazy ? await readStream(part, length, signal) : new Uint8Array(await part.arrayBuffer()));
    } catch (cause) {
      signal?.throwIfAborted();
      throw new ReadError(this.#failure(cause), { cause });
    }
  }

  #failure(cause: unknown): string {
    const { name, message } = (cause ?? {}) as Partial<Error>;
    if (this.#blob instanceof File) {
      // Browsers refuse with this error when the file on disk was changed, moved or removed after it was picked.
      if (name === "NotReadableError") return `Could not read the file ${this.#blob.name}. If it was changed or moved, choose it again.`;
      return `Could not read the file ${this.#blob.name}: ${message ?? String(cause)}`;
    }
    return `Could not read the Blob: ${message ?? String(cause)}`;
  }
}

/** Reads a Blob that may fetch its bytes, until `signal` aborts. */
async function readStream(blob: Blob, length: number, signal: AbortSignal | undefined): Promise<Uint8Array> {
  const bytes = new Uint8Array(length);
  const reader = blob.stream().getReader();
  const stop = () => void reader.cancel(signal!.reason).catch(() => {});
  signal?.addEventListener("abort", stop, { once: true });
  try {
    let filledBytes = 0;
    for (;;) {
      const { value } = await reader.read();
      signal?.throwIfAborted();
      if (!value) return bytes.subarray(0, filledBytes);
      bytes.set(value, filledBytes);
      filledBytes += value.byteLength;
    }
  } finally {
    signal?.removeEventListener("abort", stop);
  }
}
