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
  /**
   * The entries by file and section. Sections of a file are as long as the power of two from the length of an entry on,
   * so that an entry reaches into at most the next one.
   */
  readonly #sections = new Map<string, Entry[]>();
  /** The lengths of the sections. */
  readonly #lengths = new Set<number>();
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
      const section = sectionOf(entry);
      const others = this.#sections.get(section)!.filter((other) => other !== entry);
      if (others.length > 0) this.#sections.set(section, others);
      else this.#sections.delete(section);
    }
    // A view would retain more memory than is counted.
    const own = bytes.byteLength === bytes.buffer.byteLength ? bytes : bytes.slice();
    const entry = { key, offset, bytes: own };
    this.#entries.set(itsName, entry);
    const section = sectionOf(entry);
    this.#sections.set(section, [...(this.#sections.get(section) ?? []), entry]);
    this.#lengths.add(sectionLength(own.byteLength));
    this.#heldBytes += own.byteLength;
  }

  /** Returns an entry that contains the range, such as a whole tensor when only some of its rows are read. */
  #around(key: string, offset: number, length: number): Entry | undefined {
    for (const size of this.#lengths) {
      const last = Math.floor(offset / size);
      for (const section of size < length ? [] : [last, last - 1]) {
        const found = this.#sections.get(name(key, size, section))?.find((entry) => entry.offset <= offset && offset + length <= entry.offset + entry.bytes.byteLength);
        if (found) return found;
      }
    }
    return undefined;
  }
}

function sectionOf({ key, offset, bytes }: Entry): string {
  const size = sectionLength(bytes.byteLength);
  return name(key, size, Math.floor(offset / size));
}

/** Returns the length of the sections for entries of some length. */
function sectionLength(length: number): number {
  let size = 1;
  while (size < length) size *= 2;
  return size;
}

function name(key: string, offset: number, length: number): string {
  return `${offset}+${length} ${key}`;
}
