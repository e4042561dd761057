/** A cache in memory. What was used longest ago is dropped first. */

import { InvalidInputError } from "../errors.js";
import type { ByteCache } from "./byte-cache.js";

/** A cache of up to `limitBytes` in memory, for one model or several. */
export function memoryCache(limitBytes: number): ByteCache {
  if (!(limitBytes >= 0)) throw new InvalidInputError(`The cache needs a limit in bytes, not ${String(limitBytes)}.`);
  return new MemoryCache(limitBytes);
}

interface Entry {
  key: string;
  offset: number;
  bytes: Uint8Array;
}

class MemoryCache implements ByteCache {
  readonly persistent = false;
  readonly #limitBytes: number;
  /** By key and range; a Map remembers the order in which things were put, the oldest first. */
  readonly #entries = new Map<string, Entry>();
  #heldBytes = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
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
    if (bytes.byteLength > this.#limitBytes || this.#entries.has(itsName)) return;
    for (const [oldest, entry] of this.#entries) {
      if (this.#heldBytes + bytes.byteLength <= this.#limitBytes) break;
      this.#entries.delete(oldest);
      this.#heldBytes -= entry.bytes.byteLength;
    }
    // A view would keep more alive than is counted.
    const own = bytes.byteLength === bytes.buffer.byteLength ? bytes : bytes.slice();
    this.#entries.set(itsName, { key, offset, bytes: own });
    this.#heldBytes += own.byteLength;
  }

  /** An entry that has the range somewhere inside, such as a tensor of which some rows are wanted. */
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
