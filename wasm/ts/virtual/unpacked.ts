/** A safetensors file that is not there: its head, and tensors that are read when their bytes are asked for. */

import { sideBySide } from "../side-by-side.js";
import type { ReadOptions, Source } from "../source/source.js";
import type { TensorInfo } from "../tensor.js";

/** Reads bytes `begin` to `end` (excluded) of the tensor with that number. */
export type ReadTensorPart = (index: number, begin: number, end: number, signal: AbortSignal | undefined) => Promise<Uint8Array>;

/** `head`, then the tensors one after the other. */
export class UnpackedFile implements Source {
  readonly #head: Uint8Array;
  /** Where each tensor begins, and at the end where the last one ends, in bytes from the start of the file. */
  readonly #begins: readonly number[];
  readonly #readPart: ReadTensorPart;

  constructor(head: Uint8Array, tensors: Iterable<TensorInfo>, readPart: ReadTensorPart) {
    this.#head = head;
    this.#readPart = readPart;
    const begins = [head.byteLength];
    for (const { byteLength } of tensors) begins.push(begins.at(-1)! + byteLength);
    this.#begins = begins;
  }

  size(): number {
    return this.#begins.at(-1)!;
  }

  async read(offset: number, length: number, options: ReadOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    const end = offset + length;
    const out = new Uint8Array(length);
    if (offset < this.#head.byteLength) out.set(this.#head.subarray(offset, end));
    await sideBySide(options.signal, async (signal) => {
      const parts: Promise<void>[] = [];
      for (let index = this.#firstEndingAfter(offset); index < this.#begins.length - 1 && this.#begins[index]! < end; index++) {
        const [first, last] = [this.#begins[index]!, this.#begins[index + 1]!];
        const [from, to] = [Math.max(first, offset), Math.min(last, end)];
        if (from >= to) continue; // a tensor without elements
        parts.push(this.#readPart(index, from - first, to - first, signal).then((bytes) => out.set(bytes, from - offset)));
      }
      await Promise.all(parts);
    });
    return out;
  }

  /** The first tensor that ends after `position`, by halving; models have up to a million. */
  #firstEndingAfter(position: number): number {
    let [low, high] = [0, this.#begins.length - 1];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#begins[middle + 1]! > position) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}
