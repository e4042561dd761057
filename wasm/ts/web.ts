/**
 * The entry for browsers and their workers: URLs are resolved against the page, and the WebAssembly modules are
 * fetched.
 *
 * @module zstn
 */

import { coreCount, isWorkerOfFirefox, startWebWorker } from "./decode/web-worker-handle.js";
import { InvalidInputError } from "./errors.js";
import { pageAddress } from "./page-address.js";
import { setPlatform } from "./platform.js";
import { httpFunctions } from "./source/http/http-functions.js";
import type { StoredCache, StoredCacheOptions } from "./source/cache/stored-cache.js";

export * from "./exports.js";

setPlatform({ readModule: (address) => fetch(address), startWorker: startWebWorker, avoidsWorkers: isWorkerOfFirefox, coreCount, resolve: pageAddress, loadHub: () => import("./hub/for-open.js").then(({ hubWith }) => hubWith(httpFunctions)) });

/**
 * Creates a cache in a folder, which is created if necessary. Several programs may share it. Available in Node only;
 * here it throws an `InvalidInputError`.
 */
export function folderCache(path: string, options?: StoredCacheOptions): StoredCache;
export function folderCache(): never {
  throw new InvalidInputError("`folderCache` needs Node; in a browser use `opfsCache` or `memoryCache`.");
}
