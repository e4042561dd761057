/** A persistent cache in a folder on disk. */

import { checkOptions } from "../known-options.js";
import type { OptionNames } from "../known-options.js";
import { mkdir, open, readFile, readdir, rename, rm, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { InvalidInputError } from "../errors.js";
import { isEntryName } from "../source/cache/entry.js";
import { storedCache } from "../source/cache/stored-cache.js";
import type { StoredEntry, CacheBackend, StoredCache, StoredCacheOptions } from "../source/cache/stored-cache.js";

/**
 * Creates a cache in a folder, which is created if necessary. Several programs may share it. Available in Node only.
 * Throws an `InvalidInputError` for an invalid option.
 */
export function folderCache(path: string, options: StoredCacheOptions = {}): StoredCache {
  checkOptions("folderCache()", options, { maxBytes: 1 } satisfies OptionNames<StoredCacheOptions>);
  if (typeof path !== "string" || path === "") throw new InvalidInputError("`folderCache` needs the path of a folder.");
  return storedCache(new FolderBackend(path), options);
}

/** The age at which the file of an interrupted write is removed, in milliseconds. */
const ABANDONED_MS = 3_600_000;
const UNFINISHED = ".part";

class FolderBackend implements CacheBackend {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  async list(): Promise<StoredEntry[]> {
    const items: StoredEntry[] = [];
    for (const name of await readdir(this.#path)) {
      const [entry] = name.split(".");
      if (!isEntryName(entry!)) continue;
      const file = join(this.#path, name);
      const info = await stat(file).catch(() => undefined); // another program may have removed it
      if (!info) continue;
      if (name === entry) items.push({ name, sizeBytes: info.size, usedMs: info.mtimeMs });
      else if (name.endsWith(UNFINISHED) && info.mtimeMs < Date.now() - ABANDONED_MS) await rm(file, { force: true });
    }
    return items;
  }

  read(name: string): Promise<Uint8Array> {
    return readFile(join(this.#path, name));
  }

  async write(name: string, parts: Uint8Array[]): Promise<void> {
    await mkdir(this.#path, { recursive: true });
    const unfinished = join(this.#path, `${name}.${crypto.randomUUID()}${UNFINISHED}`);
    try {
      const file = await open(unfinished, "wx", 0o600);
      try {
        for (const part of parts) await file.writeFile(part);
      } finally {
        await file.close();
      }
      await rename(unfinished, join(this.#path, name));
    } catch (error) {
      await rm(unfinished, { force: true });
      throw error;
    }
  }

  async remove(name: string): Promise<void> {
    await rm(join(this.#path, name), { force: true }); // another program may have removed it
  }

  async touch(name: string): Promise<void> {
    const now = new Date();
    await utimes(join(this.#path, name), now, now);
  }
}
