/**
 * The entry for browsers and their workers: URLs are resolved against the page; the WebAssembly modules are fetched.
 *
 * @module zstn
 */

import { lazyPackModule } from "./pack-module.js";
import { lazyCore, lazyFormats } from "./core.js";
import { WorkerPool } from "./decode/pool.js";
import type { WorkerPoolOptions } from "./decode/pool.js";
import { coreCount, createWorker, webWorkerStarter } from "./decode/web-worker-handle.js";
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

// Bundlers recognise new URL("…", import.meta.url) and include the file. Calls marked as pure are left out, with
// everything behind them, by pages that do not use their result: one that only reads has no code for packing.
const loadCore = lazyCore((glue, input) => glue.default({ module_or_path: input ?? new URL("./core/zstn_wasm_bg.wasm", import.meta.url) }));
const loadFormats = lazyFormats((glue, input) => glue.default({ module_or_path: input ?? new URL("./core/zstn_formats_bg.wasm", import.meta.url) }));
const loadPackModule = /* @__PURE__ */ lazyPackModule((glue, input) => glue.default({ module_or_path: input ?? new URL("./core/zstn_coder_bg.wasm", import.meta.url) }));

/** Creates a pool of decoding workers, for the option `workers` of one or more models. They start when they are needed. */
export function workerPool(options: WorkerPoolOptions = {}): WorkerPool {
  const create = (options.createWorker as (() => Worker) | undefined) ?? createWorker;
  return new WorkerPool(options, coreCount(), webWorkerStarter(create));
}

/** Opens a model for reading tensors. See `ModelInput` for what it takes. */
export const open: Open = opener({ loadCore, loadFormats, pool: workerPool, resolve: pageAddress });

/** Packs a safetensors file into a `.zstn` container, one tensor at a time. See `PackOptions`. */
export const pack: Pack = /* @__PURE__ */ packer(loadPackModule, { resolve: pageAddress });

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

/** Creates a cache in a folder, which is created if necessary. Several programs may share it. Node only. */
export function folderCache(path: string, options?: StoredCacheOptions): StoredCache;
export function folderCache(): never {
  throw new InvalidInputError("`folderCache` needs Node; in a browser use `opfsCache` or `memoryCache`.");
}
