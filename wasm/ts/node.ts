/** The entry for Node: paths and file: addresses besides http(s), and the WebAssembly module read from disk. */

import { readFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Worker } from "node:worker_threads";
import { lazyCoder } from "./coder.js";
import { lazyCore, lazyFormats } from "./core.js";
import { WorkerPool } from "./decode/pool.js";
import type { WorkerPoolOptions } from "./decode/pool.js";
import { InvalidInputError } from "./errors.js";
import { compressor, decompressor } from "./frames.js";
import type { Compress, Decompress } from "./frames.js";
import type { CoreInput, Glue } from "./module.js";
import { FileSource } from "./node/file.js";
import { makeWorker, nodeThread } from "./node/thread.js";
import { opener } from "./open.js";
import type { Open } from "./open.js";
import { packer } from "./pack.js";
import type { Pack } from "./pack.js";
import type { Source } from "./source/source.js";

export * from "./exports.js";
export { folderCache } from "./node/folder-cache.js";

const loadCore = lazyCore((glue, input) => start(glue, input, new URL("./core/zstn_wasm_bg.wasm", import.meta.url)));
const loadFormats = lazyFormats((glue, input) => start(glue, input, new URL("./core/zstn_formats_bg.wasm", import.meta.url)));
const loadCoder = lazyCoder((glue, input) => start(glue, input, new URL("./core/zstn_coder_bg.wasm", import.meta.url)));

async function start(glue: Glue, input: CoreInput | undefined, ours: URL): Promise<unknown> {
  if (input instanceof Response || isHttp(input)) return glue.default({ module_or_path: input });
  if (input === undefined || typeof input === "string" || input instanceof URL) {
    return glue.initSync({ module: await readFile(input ?? ours) });
  }
  return glue.initSync({ module: input });
}

/** Workers that decode tensors, for the option `workers` of one model or several. They are started when they are needed. */
export function workerPool(options: WorkerPoolOptions = {}): WorkerPool {
  const make = (options.worker as (() => Worker) | undefined) ?? makeWorker;
  return new WorkerPool(options, availableParallelism(), nodeThread(make));
}

/** Opens a model for reading tensors; see `Openable` for what can be opened. */
export const open: Open = opener({ loadCore, loadFormats, pool: workerPool, resolve, beside });

/** Packs a safetensors file into a `.zstn` container, tensor by tensor, in memory for about one; see `PackOptions`. */
export const pack: Pack = packer(loadCoder, { resolve });

/** Makes a frame of bytes, such as a tensor; see `CompressOptions`. */
export const compress: Compress = compressor(loadCoder);

/** The bytes of a frame that `compress`, z4ai or `zstn compress` made. */
export const decompress: Decompress = decompressor(loadCoder);

/**
 * Loads the WebAssembly module now, and from where you say. Optional: `open` does it by itself with the
 * file that comes with this package. Only the first call, or the first `open`, decides.
 */
export async function init(input?: CoreInput): Promise<void> {
  await loadCore(input);
}

/** Like `init` for the module that reads zTensor, Gauss and compressed-tensors, which is not loaded before such a file is met. */
export async function initFormats(input?: CoreInput): Promise<void> {
  await loadFormats(input);
}

/** Like `init` for the module behind `pack`, `compress` and `decompress`, which is not loaded before one of them is called. */
export async function initCoder(input?: CoreInput): Promise<void> {
  await loadCoder(input);
}

function resolve(address: string | URL): URL | Source {
  if (typeof address === "string" && !/^(https?|file):/i.test(address)) return new FileSource(address);
  if (!URL.canParse(address)) throw new InvalidInputError(`${String(address)} is not a valid address.`);
  const url = new URL(address);
  if (url.protocol === "file:") return new FileSource(fileURLToPath(url));
  if (/^https?:$/.test(url.protocol)) return url;
  throw new InvalidInputError(`Cannot read ${url.protocol} addresses; use http:, https: or file:, or a path.`);
}

function beside(address: string | URL, name: string): string {
  const path = String(address).startsWith("file:") ? fileURLToPath(address) : String(address);
  return join(dirname(path), name);
}

function isHttp(address: CoreInput | undefined): address is string | URL {
  return (typeof address === "string" || address instanceof URL) && /^https?:/i.test(String(address));
}
