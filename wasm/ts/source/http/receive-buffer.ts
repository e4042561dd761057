/** The buffer of one read, which one or more attempts fill. */

import { LimitError } from "../../errors.js";

export class ReceiveBuffer {
  #bytes = new Uint8Array(0);
  #filledBytes = 0;
  #announcedBytes = 0;
  readonly #onBytes: ((bytes: number) => void) | undefined;

  /** Creates an empty buffer. `onBytes` counts every byte once, no matter how often it has to be fetched. */
  constructor(onBytes: ((bytes: number) => void) | undefined) {
    this.#onBytes = onBytes;
  }

  get filledBytes(): number {
    return this.#filledBytes;
  }

  /** The highest number of bytes that the buffer has contained at any time. */
  get highestBytes(): number {
    return this.#announcedBytes;
  }

  /** The bytes received so far. */
  get bytes(): Uint8Array<ArrayBuffer> {
    return this.#bytes.subarray(0, this.#filledBytes);
  }

  /** Replaces the contents by an empty buffer of `lengthBytes` bytes. Throws a `LimitError` if there is not enough memory. */
  begin(lengthBytes: number): void {
    this.#filledBytes = 0;
    if (this.#bytes.byteLength === lengthBytes) return;
    try {
      this.#bytes = new Uint8Array(lengthBytes);
    } catch (cause) {
      throw new LimitError(`There is no memory for ${lengthBytes} bytes at once.`, {}, { cause });
    }
  }

  /** Grows the buffer to `lengthBytes` bytes in total and keeps its contents. */
  reserve(lengthBytes: number): void {
    if (this.#bytes.byteLength >= lengthBytes) return;
    const held = this.bytes;
    this.begin(lengthBytes);
    this.#bytes.set(held);
    this.#filledBytes = held.byteLength;
  }

  /** Appends the next bytes, which must fit into the buffer. */
  add(chunk: Uint8Array): void {
    this.#bytes.set(chunk, this.#filledBytes);
    this.#filledBytes += chunk.byteLength;
    const news = this.#filledBytes - this.#announcedBytes;
    if (news <= 0) return;
    this.#announcedBytes += news;
    this.#onBytes?.(news);
  }
}
