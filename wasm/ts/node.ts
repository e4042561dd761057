/** The entry for Node: also paths and file: URLs; the WebAssembly modules are read from disk. */

import { readFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Worker } from "node:worker_threads";
import { lazyPackModule } from "./pack-module.js";
import { lazyCore, lazyFormats } from "./core.js";
import { WorkerPool } from "./decode/pool.js";
import type { WorkerPoolOptions } from "./decode/pool.js";
import { InvalidInputError } from "./errors.js";
import { compressor, decompressor } from "./frames.js";
import type { Compress, Decompress } from "./frames.js";
import type { CoreInput, Glue } from "./module.js";
import { FileSource } from "./node/file.js";
import { createWorker, nodeWorkerStarter } from "./node/worker-handle.js";
import { opener } from "./open.js";
import type { Open } from "./open.js";
import { packer } from "./pack.js";
import type { Pack } from "./pack.js";
import type { Source } from "./source/source.js";

export * from "./exports.js";
export { folderCache } from "./node/folder-cache.js";

const loadCore = lazyCore((glue, input) => start(glue, input, new URL("./core/zstn_wasm_bg.wasm", import.meta.url)));
const loadFormats = lazyFormats((glue, input) => start(glue, input, new URL("./core/zstn_formats_bg.wasm", import.meta.url)));
const loadPackModule = /* @__PURE__ */ lazyPackModule((glue, input) => start(glue, input, new URL("./core/zstn_coder_bg.wasm", import.meta.url)));

async function start(glue: Glue, input: CoreInput | undefined, ours: URL): Promise<unknown> {
  if (input instanceof Response || isHttp(input)) return glue.default({ module_or_path: input });
  if (input === undefined || typeof input === "string" || input instanceof URL) {
    return glue.initSync({ module: await readFile(input ?? ours) });
  }
  return glue.initSync({ module: input });
}

/** Creates a pool of decoding workers, for the option `workers` of one or more models. They start when they are needed. */
export function workerPool(options: WorkerPoolOptions = {}): WorkerPool {
  const create = (options.createWorker as (() => Worker) | undefined) ?? createWorker;
  return new WorkerPool(options, availableParallelism(), nodeWorkerStarter(create));
}

/** Opens a model for reading tensors. See `ModelInput` for what it takes. */
export const open: Open = opener({ loadCore, loadFormats, pool: workerPool, resolve, siblingPath });

/** Packs a safetensors file into a `.zstn` container, one tensor at a time. See `PackOptions`. */
export const pack: Pack = /* @__PURE__ */ packer(loadPackModule, { resolve });

/** Compresses bytes, such as a tensor, to a frame. See `CompressOptions`. */
export const compress: Compress = /* @__PURE__ */ compressor(loadPackModule);

/** Decompresses a frame of `compress`, z4ai or `zstn compress`. */
export const decompress: Decompress = /* @__PURE__ */ decompressor(loadPackModule);

/**
 * Loads the WebAssembly module now, from `input` if given. Optional: `open` loads the file that comes with this package.
 * Only the first call, or the first `open`, has an effect.
 */
export async function init(input?: CoreInput): Promise<void> {
  await loadCore(input);
}

/** Like `init`, for the module that reads zTensor, Gauss and compressed-tensors. By default it is loaded when such a file is opened. */
export async function initFormats(input?: CoreInput): Promise<void> {
  await loadFormats(input);
}

/** Like `init`, for the module of `pack`, `compress` and `decompress`. By default it is loaded when one of them is called. */
export async function initCoder(input?: CoreInput): Promise<void> {
  await loadPackModule(input);
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

function isHttp(address: CoreInput | undefined): address is string | URL {
  return (typeof address === "string" || address instanceof URL) && /^https?:/i.test(String(address));
}
