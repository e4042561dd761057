/**
 * A `Blob` as a source: a `File` that a user picked, bytes in memory, or a subclass that fetches its bytes when they
 * are read.
 */

import { ReadError } from "../errors.js";
import { httpFunctions } from "./http/http-functions.js";
import { markTransferable } from "./transferable.js";
import type { ReadOptions, Source } from "./source.js";

export class BlobSource implements Source {
  readonly #blob: Blob;

  constructor(blob: Blob) {
    this.#blob = blob;
  }

  size(): number {
    return this.#blob.size;
  }

  async read(offset: number, length: number, options: ReadOptions = {}): Promise<Uint8Array> {
    const part = this.#blob.slice(offset, offset + length);
    // This is a subclass that fetches its bytes. The code that reads it is loaded on demand.
    if (part.arrayBuffer !== Blob.prototype.arrayBuffer) return markTransferable(await (await import("./lazy-blob.js")).readLazyBlob(part, length, options, httpFunctions));
    try {
      return markTransferable(new Uint8Array(await part.arrayBuffer()));
    } catch (cause) {
      options.signal?.throwIfAborted();
      throw new ReadError(this.#failure(cause), { cause });
    }
  }

  #failure(cause: unknown): string {
    const { name, message } = (cause ?? {}) as Partial<Error>;
    if (this.#blob instanceof File) {
      // Browsers report this error if the file on disk was changed, moved or removed after it was picked.
      if (name === "NotReadableError") return `Could not read the file ${this.#blob.name}. If it was changed or moved, choose it again.`;
      return `Could not read the file ${this.#blob.name}: ${message ?? String(cause)}`;
    }
    return `Could not read the Blob: ${message ?? String(cause)}`;
  }
}
