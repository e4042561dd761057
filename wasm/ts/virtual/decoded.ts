/** Decoded tensors, kept for the next slice of them. */

import { abortable } from "../source/abortable.js";

interface Entry {
  tensor: Promise<Uint8Array<ArrayBuffer>>;
  lengthBytes: number;
  stop: AbortController;
  /** Calls that wait for it. */
  waiting: number;
  done: boolean;
}

/** Decodes tensors when they are asked for; those used last are kept. Calls for one tensor share the work. */
export class DecodedTensors {
  readonly #limitBytes: number;
  readonly #decode: (index: number, signal: AbortSignal) => Promise<Uint8Array<ArrayBuffer>>;
  /** By number of the tensor; a Map remembers the order in which things were put, the oldest first. */
  readonly #entries = new Map<number, Entry>();
  #heldBytes = 0;
  /** The tensor used last. */
  #last: number | undefined;

  /** At most `limitBytes` are kept, but always the tensor used last: a large one is mostly read piece after piece. */
  constructor(limitBytes: number, decode: (index: number, signal: AbortSignal) => Promise<Uint8Array<ArrayBuffer>>) {
    this.#limitBytes = limitBytes;
    this.#decode = decode;
  }

  /** The bytes of a tensor, which the caller does not change. */
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
        this.#drop(index, entry); // a failure may pass
      },
    );
    this.#heldBytes += lengthBytes;
    return entry;
  }

  /** Those still awaited stay: their bytes are needed anyway. */
  #trim(): void {
    for (const [index, entry] of this.#entries) {
      if (this.#heldBytes <= this.#limitBytes) return;
      if (entry.done && index !== this.#last) this.#drop(index, entry);
    }
  }

  #drop(index: number, entry: Entry): void {
    if (this.#entries.get(index) !== entry) return;
    this.#entries.delete(index);
    this.#heldBytes -= entry.lengthBytes;
  }
}
