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
  key: string;
  offset: number;
  bytes: Uint8Array;
}

class MemoryCache implements ByteCache {
  readonly persistent = false;
  readonly #maxBytes: number;
  /** The entries by key and range. A Map preserves insertion order, so the first entry is the least recently used. */
  readonly #entries = new Map<string, Entry>();
  #heldBytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  async get(key: string, offset: number, length: number): Promise<Uint8Array | undefined> {
    const entry = this.#entries.get(name(key, offset, length)) ?? this.#around(key, offset, length);
    if (!entry) return undefined;
    const itsName = name(entry.key, entry.offset, entry.bytes.byteLength);
    this.#entries.delete(itsName);
    this.#entries.set(itsName, entry);
    const begin = offset - entry.offset;
    return begin === 0 && length === entry.bytes.byteLength ? entry.bytes : entry.bytes.slice(begin, begin + length);
  }

  async put(key: string, offset: number, bytes: Uint8Array): Promise<void> {
    const itsName = name(key, offset, bytes.byteLength);
    if (bytes.byteLength > this.#maxBytes || this.#entries.has(itsName)) return;
    for (const [oldest, entry] of this.#entries) {
      if (this.#heldBytes + bytes.byteLength <= this.#maxBytes) break;
      this.#entries.delete(oldest);
      this.#heldBytes -= entry.bytes.byteLength;
    }
    // A view would retain more memory than is counted.
    const own = bytes.byteLength === bytes.buffer.byteLength ? bytes : bytes.slice();
    this.#entries.set(itsName, { key, offset, bytes: own });
    this.#heldBytes += own.byteLength;
  }

  /** Returns an entry that contains the range, such as a whole tensor when only some of its rows are read. */
  #around(key: string, offset: number, length: number): Entry | undefined {
    for (const entry of this.#entries.values()) {
      if (entry.key === key && entry.offset <= offset && offset + length <= entry.offset + entry.bytes.byteLength) return entry;
    }
    return undefined;
  }
}

function name(key: string, offset: number, length: number): string {
  return `${offset}+${length} ${key}`;
}
