/** A cache in memory that drops the least recently used entries first. */

import { atLeast } from "../option.js";
import type { ByteCache } from "./byte-cache.js";

/**
 * Creates a cache of up to `maxBytes` bytes in memory, for one or more models. Throws an `InvalidInputError` unless
 * `maxBytes` is a number of bytes.
 */
export function memoryCache(maxBytes: number): ByteCache {
  return new MemoryCache(atLeast("maxBytes", maxBytes));
}

interface Entry {
  offset: number;
  bytes: Uint8Array;
}

class MemoryCache implements ByteCache {
  readonly persistent = false;
  readonly #maxBytes: number;
  /**
   * The entries by the section of the file where they begin. Sections are as long as the power of two up to the length
   * of the entry, so that entries which begin in the same section overlap; the latest one is kept. A Map preserves
   * insertion order, so the first entry is the least recently used.
   */
  readonly #entries = new Map<string, Entry>();
  /** The lengths of the sections. */
  readonly #sizes = new Set<number>();
  #heldBytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Also finds a part of an entry, such as some rows of a tensor. */
  async get(key: string, offset: number, length: number): Promise<Uint8Array | undefined> {
    for (const size of this.#sizes) {
      // An entry reaches into up to two more sections.
      for (let at = offset; at > offset - 3 * size; at -= size) {
        const section = name(key, at, size);
        const entry = this.#entries.get(section);
        if (!entry || entry.offset > offset || offset + length > entry.offset + entry.bytes.byteLength) continue;
        this.#entries.delete(section);
        this.#entries.set(section, entry);
        const begin = offset - entry.offset;
        return length === entry.bytes.byteLength ? entry.bytes : entry.bytes.slice(begin, begin + length);
      }
    }
    return undefined;
  }

  async put(key: string, offset: number, bytes: Uint8Array): Promise<void> {
    const size = 2 ** Math.floor(Math.log2(bytes.byteLength));
    const section = name(key, offset, size);
    if (bytes.byteLength > this.#maxBytes) return;
    this.#drop(section);
    for (const oldest of this.#entries.keys()) {
      if (this.#heldBytes + bytes.byteLength <= this.#maxBytes) break;
      this.#drop(oldest);
    }
    // A view would retain more memory than is counted.
    const own = bytes.byteLength === bytes.buffer.byteLength ? bytes : bytes.slice();
    this.#entries.set(section, { offset, bytes: own });
    this.#heldBytes += own.byteLength;
    this.#sizes.add(size);
  }

  #drop(section: string): void {
    this.#heldBytes -= this.#entries.get(section)?.bytes.byteLength ?? 0;
    this.#entries.delete(section);
  }
}

function name(key: string, offset: number, size: number): string {
  return `${Math.floor(offset / size)}+${size} ${key}`;
}
