/**
 * The entry for browsers (and workers): addresses relative to the page, and the WebAssembly module fetched.
 *
 * @module zstn
 */

import { lazyCoder } from "./coder.js";
import { lazyCore, lazyFormats } from "./core.js";
import { WorkerPool } from "./decode/pool.js";
import type { WorkerPoolOptions } from "./decode/pool.js";
import { coreCount, makeWorker, webThread } from "./decode/web-thread.js";
import { InvalidInputError } from "./errors.js";
import { compressor, decompressor } from "./frames.js";
import type { Compress, Decompress } from "./frames.js";
import type { CoreInput } from "./module.js";
import { opener } from "./open.js";
import type { Open } from "./open.js";
import { packer } from "./pack.js";
import type { Pack } from "./pack.js";
import { pageAddress } from "./page-address.js";
import type { StoredCache, StoredCacheOptions } from "./source/stored-cache.js";

export * from "./exports.js";

// Bundlers recognise new URL("…", import.meta.url) and carry the file along.
const loadCore = lazyCore((glue, input) => glue.default({ module_or_path: input ?? new URL("./core/zstn_wasm_bg.wasm", import.meta.url) }));
const loadFormats = lazyFormats((glue, input) => glue.default({ module_or_path: input ?? new URL("./core/zstn_formats_bg.wasm", import.meta.url) }));
const loadCoder = lazyCoder((glue, input) => glue.default({ module_or_path: input ?? new URL("./core/zstn_coder_bg.wasm", import.meta.url) }));

/** Workers that decode tensors, for the option `workers` of one model or several. They are started when they are needed. */
export function workerPool(options: WorkerPoolOptions = {}): WorkerPool {
  const make = (options.worker as (() => Worker) | undefined) ?? makeWorker;
  return new WorkerPool(options, coreCount(), webThread(make));
}

/** Opens a model for reading tensors; see `Openable` for what can be opened. */
export const open: Open = opener({ loadCore, loadFormats, pool: workerPool, resolve: pageAddress });

/** Packs a safetensors file into a `.zstn` container, tensor by tensor, in memory for about one; see `PackOptions`. */
export const pack: Pack = packer(loadCoder, { resolve: pageAddress });

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

/** A cache in a folder, which is made if need be; several programs may use it. It needs Node. */
export function folderCache(path: string, options?: StoredCacheOptions): StoredCache;
export function folderCache(): never {
  throw new InvalidInputError("There are no folders in a browser; use `opfsCache` or `memoryCache`.");
}
