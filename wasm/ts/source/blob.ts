/** A `Blob`, such as a `File` that a person picked, as a source. */

import { ReadError } from "../errors.js";
import { markTransferable } from "./ownership.js";
import type { Source } from "./source.js";

export class BlobSource implements Source {
  readonly #blob: Blob;

  constructor(blob: Blob) {
    this.#blob = blob;
  }

  size(): number {
    return this.#blob.size;
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    try {
      return markTransferable(new Uint8Array(await this.#blob.slice(offset, offset + length).arrayBuffer()));
    } catch (cause) {
      // Browsers refuse when the file on disk was changed, moved or removed after it was picked.
      throw new ReadError(`Could not read ${describe(this.#blob)}. If it was changed or moved, choose it again.`, { cause });
    }
  }
}

function describe(blob: Blob): string {
  const name = (blob as { name?: unknown }).name;
  return typeof name === "string" ? `the file ${name}` : "the Blob";
}
