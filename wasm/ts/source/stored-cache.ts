/** A cache that outlives the program: one file for each range, in a folder of whatever kind. */

import { InvalidInputError } from "../errors.js";
import type { ByteCache } from "./byte-cache.js";
import { ENTRY_HEADER_BYTES, entryBytes, entryHeader, entryName, keyHash } from "./entry.js";

/** What a stored cache may be given. */
export interface StoredCacheOptions {
  /** The most it takes, in bytes; 1 GiB unless said otherwise. */
  limitBytes?: number;
}

/** A cache in files, for `open(…, { cache })`. What cannot be stored is not cached, and what comes back damaged counts as not there. */
export interface StoredCache extends ByteCache {
  readonly persistent: true;
  /** Resolves once everything put so far is stored. */
  settled(): Promise<void>;
  /** Removes everything. */
  clear(): Promise<void>;
}

/** A folder of entries; each call may fail. */
export interface Shelf {
  list(): Promise<Item[]>;
  read(name: string): Promise<Uint8Array>;
  /** Writes `parts` one after the other under this name, all of them or nothing. */
  write(name: string, parts: Uint8Array[]): Promise<void>;
  remove(name: string): Promise<void>;
  /** Notes that an entry was used, where that can be noted. */
  touch(name: string): Promise<void>;
}

export interface Item {
  name: string;
  sizeBytes: number;
  /** When it was last used, or at least when it was written, in milliseconds since 1970. */
  usedMs: number;
}

const DEFAULT_LIMIT_BYTES = 1 << 30;
/** Bytes that may wait to be stored while reading goes on. */
const MOST_WAITING_BYTES = 64 << 20;
/** A full cache is emptied to this part of its limit, so that it is not looked through at every write. */
const EVICT_TO = 0.9;

export function storedCache(shelf: Shelf, { limitBytes = DEFAULT_LIMIT_BYTES }: StoredCacheOptions): StoredCache {
  if (!(limitBytes >= 0)) throw new InvalidInputError(`The cache needs a limit in bytes, not ${String(limitBytes)}.`);
  return new EntryCache(shelf, limitBytes);
}

class EntryCache implements StoredCache {
  readonly persistent = true;
  readonly #shelf: Shelf;
  readonly #limitBytes: number;
  /** Known after one look, so that a miss costs nothing. Entries that others add are seen when the folder is looked through again. */
  #items: Promise<Map<string, Item>> | undefined;
  readonly #hashes = new Map<string, Promise<string>>();
  /** One write at a time: two could each believe to have the room. */
  #writes: Promise<void> = Promise.resolve();
  #waitingBytes = 0;

  constructor(shelf: Shelf, limitBytes: number) {
    this.#shelf = shelf;
    this.#limitBytes = limitBytes;
  }

  async get(key: string, offset: number, length: number): Promise<Uint8Array | undefined> {
    const [items, hash] = await Promise.all([this.#known(), this.#hash(key)]);
    const name = entryName(hash, offset, length);
    const item = items.get(name);
    if (!item) return undefined;
    const bytes = await this.#intact(item);
    if (!bytes) {
      items.delete(name);
      await this.#shelf.remove(name).catch(() => {});
      return undefined;
    }
    item.usedMs = Date.now();
    void this.#shelf.touch(name).catch(() => {});
    return bytes;
  }

  async put(key: string, offset: number, bytes: Uint8Array): Promise<void> {
    if (bytes.byteLength + ENTRY_HEADER_BYTES > this.#limitBytes * EVICT_TO) return;
    this.#waitingBytes += bytes.byteLength;
    const stored = this.#afterWrites(async () => {
      try {
        await this.#store(entryName(await this.#hash(key), offset, bytes.byteLength), bytes);
      } finally {
        this.#waitingBytes -= bytes.byteLength;
      }
    });
    if (this.#waitingBytes > MOST_WAITING_BYTES) await stored;
  }

  settled(): Promise<void> {
    return this.#writes;
  }

  clear(): Promise<void> {
    return this.#afterWrites(async () => {
      const items = await this.#lookThrough();
      for (const { name } of items.values()) await this.#shelf.remove(name);
      items.clear();
    });
  }

  /** Runs `work` after all writes before it; that may fail, which is for its caller to know, not for those after it. */
  #afterWrites(work: () => Promise<void>): Promise<void> {
    const done = this.#writes.then(work);
    this.#writes = done.catch(() => {});
    return done;
  }

  async #store(name: string, bytes: Uint8Array): Promise<void> {
    if ((await this.#known()).has(name)) return;
    const header = await entryHeader(name, bytes);
    const sizeBytes = header.byteLength + bytes.byteLength;
    await this.#makeRoom(sizeBytes);
    await this.#shelf.write(name, [header, bytes]);
    (await this.#known()).set(name, { name, sizeBytes, usedMs: Date.now() });
  }

  async #makeRoom(neededBytes: number): Promise<void> {
    if (total(await this.#known()) + neededBytes <= this.#limitBytes) return;
    const items = await this.#lookThrough();
    let heldBytes = total(items);
    for (const { name, sizeBytes } of [...items.values()].sort((a, b) => a.usedMs - b.usedMs)) {
      if (heldBytes + neededBytes <= this.#limitBytes * EVICT_TO) break;
      await this.#shelf.remove(name).catch(() => {}); // somebody else may have removed it
      items.delete(name);
      heldBytes -= sizeBytes;
    }
  }

  async #intact({ name, sizeBytes }: Item): Promise<Uint8Array | undefined> {
    if (!name.endsWith(`-${sizeBytes - ENTRY_HEADER_BYTES}`)) return undefined;
    try {
      return await entryBytes(name, await this.#shelf.read(name));
    } catch {
      return undefined;
    }
  }

  #known(): Promise<Map<string, Item>> {
    return this.#items ?? this.#lookThrough();
  }

  #lookThrough(): Promise<Map<string, Item>> {
    const list = this.#shelf.list().catch((): Item[] => []);
    const items = list.then((all) => new Map(all.map((item) => [item.name, item])));
    this.#items = items;
    return items;
  }

  #hash(key: string): Promise<string> {
    let hash = this.#hashes.get(key);
    if (!hash) this.#hashes.set(key, (hash = keyHash(key)));
    return hash;
  }
}

function total(items: Map<string, Item>): number {
  let bytes = 0;
  for (const { sizeBytes } of items.values()) bytes += sizeBytes;
  return bytes;
}
