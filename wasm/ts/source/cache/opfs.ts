/** A persistent cache in the origin private file system of a browser. */

import { checkOptions } from "../../known-options.js";
import type { OptionNames } from "../../known-options.js";
import { UnsupportedError } from "../../errors.js";
import { isEntryName } from "./entry.js";
import { storedCache } from "./stored-cache.js";
import type { StoredEntry, CacheBackend, StoredCache, StoredCacheOptions } from "./stored-cache.js";

/** Options of `opfsCache`. */
export interface OpfsCacheOptions extends StoredCacheOptions {
  /** The name of the cache folder, for pages of one origin that need separate caches. `zstn-cache` by default. */
  folder?: string;
}

/**
 * Creates a cache in the origin private file system. It needs a secure context (https: or localhost) and a browser that
 * can write there from pages (Chromium 86, Firefox 111, Safari 26). Otherwise throws an `UnsupportedError`. Some
 * browsers fail only when an entry is stored, for example in private windows; the `storeError` of the cache then
 * contains the error.
 */
export function opfsCache(all: OpfsCacheOptions = {}): StoredCache {
  checkOptions("opfsCache()", all, { folder: 1, maxBytes: 1 } satisfies OptionNames<OpfsCacheOptions>);
  const { folder = "zstn-cache", ...options } = all;
  if (typeof globalThis.navigator?.storage?.getDirectory !== "function") {
    const reason = globalThis.isSecureContext === false ? "A page has one on https: or localhost only" : "This runtime has none";
    throw new UnsupportedError(`There is no origin private file system here. ${reason}; use \`memoryCache\` instead.`);
  }
  if (typeof globalThis.FileSystemFileHandle?.prototype.createWritable !== "function") {
    throw new UnsupportedError("Pages cannot write to the origin private file system of this browser (createWritable is missing); use `memoryCache` instead.");
  }
  return storedCache(new OpfsBackend(folder), options);
}

class OpfsBackend implements CacheBackend {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async list(): Promise<StoredEntry[]> {
    const items: StoredEntry[] = [];
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
    let stream: FileSystemWritableFileStream | undefined;
    try {
      // The file changes atomically when the stream is closed.
      stream = await handle.createWritable();
      for (const part of parts) await stream.write(part as Uint8Array<ArrayBuffer>);
      await stream.close();
    } catch (error) {
      await stream?.abort(error).catch(() => {});
      await this.remove(name).catch(() => {}); // `create: true` has created an empty file
      throw error;
    }
  }

  async remove(name: string): Promise<void> {
    await (await this.#open()).removeEntry(name);
  }

  /**
   * Does nothing, because these files record only the time of their last write. The oldest entries are dropped first,
   * except for entries that this page has used.
   */
  async touch(): Promise<void> {}

  async #open(): Promise<FileSystemDirectoryHandle> {
    return (await navigator.storage.getDirectory()).getDirectoryHandle(this.#folder, { create: true });
  }
}
