/** A stored cache in the private file system that a browser has for each origin. */

import { InvalidInputError } from "../errors.js";
import { isEntryName } from "./entry.js";
import { storedCache } from "./stored-cache.js";
import type { Item, Shelf, StoredCache, StoredCacheOptions } from "./stored-cache.js";

/** What `opfsCache` may be given. */
export interface OpfsCacheOptions extends StoredCacheOptions {
  /** Name of the folder, for pages of one origin that want caches of their own; `zstn-cache` unless said otherwise. */
  folder?: string;
}

/** A cache in the origin private file system. It needs a secure page (https:, or localhost). */
export function opfsCache({ folder = "zstn-cache", ...options }: OpfsCacheOptions = {}): StoredCache {
  if (typeof globalThis.navigator?.storage?.getDirectory !== "function") {
    throw new InvalidInputError("There is no private file system here: pages have one over https: or on localhost. Use `memoryCache` instead.");
  }
  return storedCache(new OpfsShelf(folder), options);
}

class OpfsShelf implements Shelf {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async list(): Promise<Item[]> {
    const items: Item[] = [];
    for await (const [name, handle] of (await this.#open()).entries()) {
      if (!(handle instanceof FileSystemFileHandle) || !isEntryName(name)) continue;
      const { size, lastModified } = await handle.getFile();
      items.push({ name, sizeBytes: size, usedMs: lastModified });
    }
    return items;
  }

  async read(name: string): Promise<Uint8Array> {
    const handle = await (await this.#open()).getFileHandle(name);
    return new Uint8Array(await (await handle.getFile()).arrayBuffer());
  }

  async write(name: string, parts: Uint8Array[]): Promise<void> {
    const handle = await (await this.#open()).getFileHandle(name, { create: true });
    // The file changes when the stream is closed, to all of what was written.
    const stream = await handle.createWritable();
    try {
      for (const part of parts) await stream.write(part as Uint8Array<ArrayBuffer>);
      await stream.close();
    } catch (error) {
      await stream.abort(error).catch(() => {});
      await this.remove(name); // it has been made, empty
      throw error;
    }
  }

  async remove(name: string): Promise<void> {
    await (await this.#open()).removeEntry(name);
  }

  /** These files remember when they were written, nothing else: what is oldest goes first, apart from what this page has used. */
  async touch(): Promise<void> {}

  async #open(): Promise<FileSystemDirectoryHandle> {
    return (await navigator.storage.getDirectory()).getDirectoryHandle(this.#folder, { create: true });
  }
}
