/** A cache of decoded tensors. */

import { abortable } from "../source/abortable.js";

interface Entry {
  tensor: Promise<Uint8Array<ArrayBuffer>>;
  lengthBytes: number;
  stop: AbortController;
  /** The number of calls that are waiting for the tensor. */
  waiting: number;
  done: boolean;
}

/** Decodes tensors on request and retains the most recently used ones. Concurrent calls for the same tensor share the work. */
export class TensorCache {
  readonly #maxBytes: number;
  readonly #decode: (index: number, signal: AbortSignal) => Promise<Uint8Array<ArrayBuffer>>;
  /** The entries by tensor index. A Map preserves insertion order, so the first entry is the least recently used. */
  readonly #entries = new Map<number, Entry>();
  #heldBytes = 0;
  /** The index of the most recently used tensor. */
  #last: number | undefined;

  /** Retains at most `maxBytes`, but always the most recently used tensor: a large one is usually read in chunks. */
  constructor(maxBytes: number, decode: (index: number, signal: AbortSignal) => Promise<Uint8Array<ArrayBuffer>>) {
    this.#maxBytes = maxBytes;
    this.#decode = decode;
  }

  /** Returns whether a tensor is in the cache, or is being decoded. */
  has(index: number): boolean {
    return this.#entries.has(index);
  }

  /** Returns the bytes of a tensor, which the caller must not change. */
  async get(index: number, lengthBytes: number, signal: AbortSignal | undefined): Promise<Uint8Array<ArrayBuffer>> {
    signal?.throwIfAborted();
    const entry = this.#entries.get(index) ?? this.#start(index, lengthBytes);
    this.#entries.delete(index);
    this.#entries.set(index, entry);
    this.#last = index;
    this.#trim();
    entry.waiting += 1;
    try {
      return await abortable(entry.tensor, signal);
    } finally {
      entry.waiting -= 1;
      if (!entry.done && entry.waiting === 0) {
        this.#drop(index, entry);
        entry.stop.abort();
      }
    }
  }

  #start(index: number, lengthBytes: number): Entry {
    const stop = new AbortController();
    const entry: Entry = { tensor: this.#decode(index, stop.signal), lengthBytes, stop, waiting: 0, done: false };
    entry.tensor.then(
      () => {
        entry.done = true;
        this.#trim();
      },
      () => {
        entry.done = true;
        this.#drop(index, entry); // the next call tries again
      },
    );
    this.#heldBytes += lengthBytes;
    return entry;
  }

  /** Drops entries until the limit is met. Tensors that are still being decoded stay, because callers are waiting for them. */
  #trim(): void {
    for (const [index, entry] of this.#entries) {
      if (this.#heldBytes <= this.#maxBytes) return;
      if (entry.done && index !== this.#last) this.#drop(index, entry);
    }
  }

  #drop(index: number, entry: Entry): void {
    if (this.#entries.get(index) !== entry) return;
    this.#entries.delete(index);
    this.#heldBytes -= entry.lengthBytes;
  }
}
