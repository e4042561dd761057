/** A file on disk as a source. The file is closed when it has not been read for a while, so callers need not close it. */

import type { Stats } from "node:fs";
import { open, stat } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { ReadError, SourceChangedError, ZstnError } from "../errors.js";
import { markTransferable } from "../source/transferable.js";
import type { Source } from "../source/source.js";

/** The time without a read after which the file is closed, in milliseconds. */
const IDLE_MS = 1000;

interface Identity {
  sizeBytes: number;
  modifiedMs: number;
  inode: number;
}

export class FileSource implements Source {
  readonly #path: string;
  #identity: Identity | undefined;
  #handle: Promise<FileHandle> | undefined;
  #reads = 0;
  #idleTimer: NodeJS.Timeout | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  size(): Promise<number> {
    return this.#withFile(async (file) => {
      this.#identity ??= identityOf(await file.stat());
      return this.#identity.sizeBytes;
    });
  }

  read(offset: number, length: number): Promise<Uint8Array> {
    return this.#withFile(async (file) => {
      const bytes = new Uint8Array(length);
      let filled = 0;
      while (filled < length) {
        const { bytesRead } = await file.read(bytes, filled, length - filled, offset + filled);
        if (bytesRead === 0) break;
        filled += bytesRead;
      }
      await this.#checkUnchanged();
      return markTransferable(bytes.subarray(0, filled));
    });
  }

  async #withFile<T>(work: (file: FileHandle) => Promise<T>): Promise<T> {
    clearTimeout(this.#idleTimer);
    this.#reads += 1;
    try {
      this.#handle ??= open(this.#path, "r");
      return await work(await this.#handle);
    } catch (cause) {
      this.#close();
      if (cause instanceof ZstnError) throw cause;
      throw new ReadError(`Could not read the file ${this.#path}: ${reason(cause)}.`, { cause });
    } finally {
      this.#reads -= 1;
      // The timer does not keep the process running. When the process ends, the file is closed anyway.
      if (this.#reads === 0 && this.#handle) this.#idleTimer = setTimeout(() => this.#close(), IDLE_MS).unref();
    }
  }

  #close(): void {
    const handle = this.#handle;
    this.#handle = undefined;
    void handle?.then((file) => file.close()).catch(() => {});
  }

  /** Throws if the file at the path has changed. The open handle would still refer to the old file after a replacement. */
  async #checkUnchanged(): Promise<void> {
    const before = this.#identity;
    if (!before) return;
    const now = identityOf(await stat(this.#path));
    if (now.sizeBytes !== before.sizeBytes || now.modifiedMs !== before.modifiedMs || now.inode !== before.inode) {
      throw new SourceChangedError(`The file ${this.#path} was changed while it was being read. Open it again.`);
    }
  }
}

function identityOf({ size, mtimeMs, ino }: Stats): Identity {
  return { sizeBytes: size, modifiedMs: mtimeMs, inode: ino };
}

function reason(cause: unknown): string {
  const code = (cause as NodeJS.ErrnoException).code;
  if (code === "ENOENT") return "it does not exist";
  if (code === "EACCES" || code === "EPERM") return "permission denied";
  if (code === "EISDIR") return "it is a directory";
  return cause instanceof Error ? cause.message : String(cause);
}
