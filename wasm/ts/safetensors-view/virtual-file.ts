/**
 * A safetensors file that is not stored anywhere: its head is in memory, and its tensors are read when their bytes are
 * read.
 */

import type { CoreLayout, ModelInstance } from "../core.js";
import { abortSiblingsOnFailure } from "../abort-siblings.js";
import type { ReadOptions, Source } from "../source/source.js";

/** Reads bytes `begin` to `end` (exclusive) of the tensor with the given index. */
export type ReadTensorPart = (index: number, begin: number, end: number, signal: AbortSignal | undefined) => Promise<Uint8Array>;

/** A file with the given layout. A callback reads its tensors. */
export class VirtualFile implements Source {
  readonly #instance: ModelInstance;
  readonly #layout: CoreLayout;
  readonly #head: Uint8Array;
  readonly #sizeBytes: number;
  readonly #readPart: ReadTensorPart;

  constructor(instance: ModelInstance, layout: CoreLayout, readPart: ReadTensorPart) {
    this.#instance = instance;
    this.#layout = layout;
    this.#head = instance.call(() => layout.head());
    this.#sizeBytes = instance.call(() => layout.sizeBytes());
    this.#readPart = readPart;
  }

  size(): number {
    return this.#sizeBytes;
  }

  async read(offset: number, length: number, options: ReadOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    const out = new Uint8Array(length);
    if (offset < this.#head.byteLength) out.set(this.#head.subarray(offset, offset + length));
    const tensors = this.#instance.call(() => this.#layout.tensors(offset, offset + length));
    let position = Math.max(offset, this.#head.byteLength) - offset;
    await abortSiblingsOnFailure([options.signal], async (signal) => {
      const parts: Promise<void>[] = [];
      for (let i = 0; i < tensors.length; i += 3) {
        const [index, begin, end] = [tensors[i]!, tensors[i + 1]!, tensors[i + 2]!];
        const at = position;
        position += end - begin;
        // Each part has its own signal, since Node warns about a signal with more than ten listeners.
        parts.push(abortSiblingsOnFailure([signal], (signal) => this.#readPart(index, begin, end, signal)).then((bytes) => out.set(bytes, at)));
      }
      await Promise.all(parts);
    });
    return out;
  }
}
