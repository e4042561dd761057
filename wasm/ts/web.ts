/**
 * The entry for browsers and their workers. The functions that need the platform set it when this module is evaluated, so
 * that a bundle with none of them contains only the code that it uses, such as one error class.
 */

import { InvalidInputError } from "./errors.js";
import * as frames from "./frames.js";
import { open as openModel } from "./open.js";
import { pack as packFile } from "./pack.js";
import type { StoredCache, StoredCacheOptions } from "./source/cache/stored-cache.js";
import { unpack as unpackFile } from "./unpack.js";
import { onWeb } from "./web-platform.js";

export * from "./exports.js";
export { workerPool } from "./web-worker-pool.js";

// A bundler removes a call with this annotation if nothing uses its result.
export const open = /* @__PURE__ */ onWeb(openModel);
export const pack = /* @__PURE__ */ onWeb(packFile);
export const unpack = /* @__PURE__ */ onWeb(unpackFile);
export const compress = /* @__PURE__ */ onWeb(frames.compress);
export const compressDelta = /* @__PURE__ */ onWeb(frames.compressDelta);
export const decompress = /* @__PURE__ */ onWeb(frames.decompress);
export const decompressDelta = /* @__PURE__ */ onWeb(frames.decompressDelta);

/**
 * Creates a cache in a folder, which is created if necessary. Several programs may share it. Available in Node only;
 * here it throws an `InvalidInputError`.
 */
export function folderCache(path: string, options?: StoredCacheOptions): StoredCache;
export function folderCache(): never {
  throw new InvalidInputError("`folderCache` needs Node; in a browser use `opfsCache` or `memoryCache`.");
}
