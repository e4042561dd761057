/** The entry for Node: also paths and file: URLs; the WebAssembly modules are read from disk. */

import { readFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { InvalidInputError } from "./errors.js";
import { FileSource } from "./node/file.js";
import { startNodeWorker } from "./node/worker-handle.js";
import { setPlatform } from "./platform.js";
import type { Source } from "./source/source.js";

export * from "./exports.js";
export { folderCache } from "./node/folder-cache.js";

setPlatform({ readModule, startWorker: startNodeWorker, coreCount: availableParallelism, resolve, siblingPath });

function readModule(address: string | URL): Promise<Response | Uint8Array<ArrayBuffer>> {
  return /^https?:/i.test(String(address)) ? fetch(address) : readFile(address);
}

function resolve(address: string | URL): URL | Source {
  if (typeof address === "string" && !/^(https?|file):/i.test(address)) return new FileSource(address);
  if (!URL.canParse(address)) throw new InvalidInputError(`${String(address)} is not a valid address.`);
  const url = new URL(address);
  if (url.protocol === "file:") return new FileSource(fileURLToPath(url));
  if (/^https?:$/.test(url.protocol)) return url;
  throw new InvalidInputError(`Cannot read ${url.protocol} addresses; use http:, https: or file:, or a path.`);
}

function siblingPath(address: string | URL, name: string): string {
  const path = String(address).startsWith("file:") ? fileURLToPath(address) : String(address);
  return join(dirname(path), name);
}
