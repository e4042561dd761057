/** A persistent cache with one file for each range, in a folder of any backend. */

import { atLeast } from "../option.js";
import type { ByteCache } from "./byte-cache.js";
import { ENTRY_HEADER_BYTES, entryBytes, entryHeader, entryName, keyHash } from "./entry.js";

/** Options of a persistent cache. */
export interface StoredCacheOptions {
  /** The maximum size of the cache, in bytes. 1 GiB by default. */
  maxBytes?: number;
}

/**
 * A cache in files, for `open(…, { cache })`. A range that cannot be stored is not cached, and a damaged entry is
 * treated as missing.
 */
export interface StoredCache extends ByteCache {
  readonly persistent: true;
  /** The error of the last range that could not be stored; `undefined` if all were stored. Reads are not affected. */
  readonly storeError: unknown;
  /** Resolves when all ranges put so far have been stored or have failed to (see `storeError`). */
  flush(): Promise<void>;
  /** Removes all entries. */
  clear(): Promise<void>;
}

/** The storage of a persistent cache: a folder of entries. Every call may fail. */
export interface CacheBackend {
  list(): Promise<StoredEntry[]>;
  read(name: string): Promise<Uint8Array>;
  /** Writes the concatenation of `parts` under this name, atomically. */
  write(name: string, parts: Uint8Array[]): Promise<void>;
  remove(name: string): Promise<void>;
  /** Records that an entry was used, if the storage can record it. */
  touch(name: string): Promise<void>;
}

export interface StoredEntry {
  name: string;
  sizeBytes: number;
  /** The time of the entry's last use or, without one, of its writing, in milliseconds since 1970. */
  usedMs: number;
}

const DEFAULT_LIMIT_BYTES = 1 << 30;
/** The number of bytes that may wait to be stored before `put` makes its caller wait. */
const MAX_QUEUED_BYTES = 64 << 20;
/** A full cache is reduced to this fraction of its limit, so that not every write has to scan it. */
const EVICT_TO = 0.9;

export function storedCache(backend: CacheBackend, { maxBytes = DEFAULT_LIMIT_BYTES }: StoredCacheOptions): StoredCache {
  atLeast("maxBytes", maxBytes);
  return new EntryCache(backend, maxBytes);
}

class EntryCache implements StoredCache {
  readonly persistent = true;
  readonly #backend: CacheBackend;
  readonly #maxBytes: number;
  /**
   * The entries by name, cached after one scan, so that a miss needs no access to the storage. Entries of other
   * programs become visible at the next scan.
   */
  #index: Promise<Map<string, StoredEntry>> | undefined;
  readonly #hashes = new Map<string, Promise<string>>();
  /** The queue of writes, which run sequentially: two concurrent writes could both claim the same free space. */
  #writes: Promise<void> = Promise.resolve();
  #waitingBytes = 0;
  #storeError: unknown;

  constructor(backend: CacheBackend, maxBytes: number) {
    this.#backend = backend;
    this.#maxBytes = maxBytes;
  }

  get storeError(): unknown {
    return this.#storeError;
  }

  async get(key: string, offset: number, length: number): Promise<Uint8Array | undefined> {
    const [items, hash] = await Promise.all([this.#entries(), this.#hash(key)]);
    const name = entryName(hash, offset, length);
    const item = items.get(name);
    if (!item) return undefined;
    const bytes = await this.#intact(item);
    if (!bytes) {
      items.delete(name);
      await this.#backend.remove(name).catch(() => {});
      return undefined;
    }
    item.usedMs = Date.now();
    void this.#backend.touch(name).catch(() => {});
    return bytes;
  }

  async put(key: string, offset: number, bytes: Uint8Array): Promise<void> {
    if (bytes.byteLength + ENTRY_HEADER_BYTES > this.#maxBytes * EVICT_TO) return;
    this.#waitingBytes += bytes.byteLength;
    const stored = this.#afterWrites(async () => {
      try {
        await this.#store(entryName(await this.#hash(key), offset, bytes.byteLength), bytes);
      } catch (error) {
        this.#storeError = error;
        throw error;
      } finally {
        this.#waitingBytes -= bytes.byteLength;
      }
    });
    if (this.#waitingBytes > MAX_QUEUED_BYTES) await stored;
  }

  flush(): Promise<void> {
    return this.#writes;
  }

  clear(): Promise<void> {
    return this.#afterWrites(async () => {
      const items = await this.#rescan();
      for (const { name } of items.values()) await this.#backend.remove(name);
      items.clear();
    });
  }

  /** Runs `work` after all earlier writes. A failure rejects the returned promise and does not affect later writes. */
  #afterWrites(work: () => Promise<void>): Promise<void> {
    const done = this.#writes.then(work);
    this.#writes = done.catch(() => {});
    return done;
  }

  async #store(name: string, bytes: Uint8Array): Promise<void> {
    if ((await this.#entries()).has(name)) return;
    const header = await entryHeader(name, bytes);
    const sizeBytes = header.byteLength + bytes.byteLength;
    await this.#evictFor(sizeBytes);
    await this.#backend.write(name, [header, bytes]);
    (await this.#entries()).set(name, { name, sizeBytes, usedMs: Date.now() });
  }

  async #evictFor(neededBytes: number): Promise<void> {
    if (total(await this.#entries()) + neededBytes <= this.#maxBytes) return;
    const items = await this.#rescan();
    let heldBytes = total(items);
    for (const { name, sizeBytes } of [...items.values()].sort((a, b) => a.usedMs - b.usedMs)) {
      if (heldBytes + neededBytes <= this.#maxBytes * EVICT_TO) break;
      await this.#backend.remove(name).catch(() => {}); // another program may have removed it
      items.delete(name);
      heldBytes -= sizeBytes;
    }
  }

  async #intact({ name, sizeBytes }: StoredEntry): Promise<Uint8Array | undefined> {
    if (!name.endsWith(`-${sizeBytes - ENTRY_HEADER_BYTES}`)) return undefined;
    try {
      return await entryBytes(name, await this.#backend.read(name));
    } catch {
      return undefined;
    }
  }

  #entries(): Promise<Map<string, StoredEntry>> {
    return this.#index ?? this.#rescan();
  }

  #rescan(): Promise<Map<string, StoredEntry>> {
    const list = this.#backend.list().catch((): StoredEntry[] => []);
    const items = list.then((all) => new Map(all.map((item) => [item.name, item])));
    this.#index = items;
    return items;
  }

  #hash(key: string): Promise<string> {
    let hash = this.#hashes.get(key);
    if (!hash) this.#hashes.set(key, (hash = keyHash(key)));
    return hash;
  }
}

function total(items: Map<string, StoredEntry>): number {
  let bytes = 0;
  for (const { sizeBytes } of items.values()) bytes += sizeBytes;
  return bytes;
}
