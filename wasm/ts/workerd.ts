/**
 * The entry for Cloudflare Workers (export condition `workerd`). WebAssembly modules are imported, because Workers may
 * not compile them at run time. Addresses must be absolute, and there are no workers to decode in.
 *
 * @module zstn
 */

import type { WasmFiles } from "./configure.js";
import { UnsupportedError } from "./errors.js";
import { pageAddress } from "./page-address.js";
import { setPlatform } from "./platform.js";
import type { StoredCache, StoredCacheOptions } from "./source/cache/stored-cache.js";
import type { WasmModule } from "./wasm-input.js";

export * from "./exports.js";

type Imported = Promise<{ default: WasmModule }>;

/** Each module has its own import, so that a Worker that only reads does not load the code that packs. */
const MODULES: Record<keyof WasmFiles, () => Imported> = {
  reader: () => import("./core/zstn_wasm_bg.wasm") as unknown as Imported,
  formats: () => import("./core/zstn_formats_bg.wasm") as unknown as Imported,
  coder: () => import("./core/zstn_coder_bg.wasm") as unknown as Imported,
  gpu: () => import("./core/zstn_gpu_bg.wasm") as unknown as Imported,
};

setPlatform({
  readModule: (address) => fetch(address),
  ownModule: async (name) => (await MODULES[name]()).default,
  loadAdvice: () => "Check that `.wasm` files are bundled as compiled modules (`CompiledWasm`, the default of Wrangler).",
  coreCount: () => 1,
  resolve: pageAddress,
  loadHub: () => import("./hub/web.js"),
});

/**
 * Creates a cache in a folder, which is created if necessary. Several programs may share it. Available in Node only;
 * here it throws an `UnsupportedError`.
 */
export function folderCache(path: string, options?: StoredCacheOptions): StoredCache;
export function folderCache(): never {
  throw new UnsupportedError("`folderCache` needs Node; in Cloudflare Workers use `memoryCache`.");
}
