/** A file on disk as a source. It is opened for each read, so that nothing has to be closed. */

import { open } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { ReadError, SourceChangedError, ZstnError } from "../errors.js";
import { markTransferable } from "../source/ownership.js";
import type { Source } from "../source/source.js";

interface Identity {
  sizeBytes: number;
  modifiedMs: number;
  inode: number;
}

export class FileSource implements Source {
  readonly #path: string;
  #identity: Identity | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  size(): Promise<number> {
    return this.#withFile(async (file) => {
      this.#identity ??= await identify(file);
      return this.#identity.sizeBytes;
    });
  }

  read(offset: number, length: number): Promise<Uint8Array> {
    return this.#withFile(async (file) => {
      await this.#checkUnchanged(file);
      const bytes = new Uint8Array(length);
      let filled = 0;
      while (filled < length) {
        const { bytesRead } = await file.read(bytes, filled, length - filled, offset + filled);
        if (bytesRead === 0) break;
        filled += bytesRead;
      }
      return markTransferable(bytes.subarray(0, filled));
    });
  }

  async #withFile<T>(work: (file: FileHandle) => Promise<T>): Promise<T> {
    let file: FileHandle | undefined;
    try {
      file = await open(this.#path, "r");
      return await work(file);
    } catch (cause) {
      if (cause instanceof ZstnError) throw cause;
      throw new ReadError(`Could not read the file ${this.#path}: ${reason(cause)}.`, { cause });
    } finally {
      await file?.close();
    }
  }

  async #checkUnchanged(file: FileHandle): Promise<void> {
    const before = this.#identity;
    const now = await identify(file);
    if (before && (now.sizeBytes !== before.sizeBytes || now.modifiedMs !== before.modifiedMs || now.inode !== before.inode)) {
      throw new SourceChangedError(`The file ${this.#path} was changed while it was being read. Open it again.`);
    }
  }
}

async function identify(file: FileHandle): Promise<Identity> {
  const stat = await file.stat();
  return { sizeBytes: stat.size, modifiedMs: stat.mtimeMs, inode: stat.ino };
}

function reason(cause: unknown): string {
  const code = (cause as NodeJS.ErrnoException).code;
  if (code === "ENOENT") return "it does not exist";
  if (code === "EACCES" || code === "EPERM") return "permission denied";
  if (code === "EISDIR") return "it is a directory";
  return cause instanceof Error ? cause.message : String(cause);
}
