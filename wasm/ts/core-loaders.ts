/** Loaders of the WebAssembly modules that read models. */

import type { CoreInstance } from "./core.js";
import * as glue from "./core/zstn_wasm.js";
import type { GpuCore } from "./gpu-module.js";
import type { Instance } from "./instance.js";
import { lazyInstance } from "./module-loader.js";
import { isOfOtherFormat } from "./packed-names.js";
import { platform } from "./platform.js";
import type { ReaderCore } from "./reader-core.js";

// Bundlers recognise new URL("…", import.meta.url) and include the file in the bundle.

/** Returns the module that decodes tensors of files packed from safetensors. Rejects with a `CoreLoadError` if it cannot be loaded. */
export const loadReader: () => Promise<Instance<ReaderCore>> = /* @__PURE__ */ lazyInstance({
  name: "reader",
  url: () => new URL("./core/zstn_wasm_bg.wasm", import.meta.url),
  glue: () => glue,
});

/** Returns the core that reads all formats. Rejects with a `CoreLoadError` if it cannot be loaded. */
export const loadFormats: () => Promise<CoreInstance> = /* @__PURE__ */ lazyInstance({
  name: "formats",
  url: () => new URL("./core/zstn_formats_bg.wasm", import.meta.url),
  glue: () => platform.formatsGlue ?? import("./core/zstn_formats.js"),
});

/** Starts to load the core if a packed file of this name needs it to be listed. */
export const preload = async (name: string): Promise<unknown> => isOfOtherFormat(name) && loadFormats();

/** Returns the module that makes lists for shaders. Rejects with a `CoreLoadError` if it cannot be loaded. */
export const loadGpuModule: () => Promise<Instance<GpuCore>> = /* @__PURE__ */ lazyInstance({
  name: "gpu",
  url: () => new URL("./core/zstn_gpu_bg.wasm", import.meta.url),
  glue: () => import("./core/zstn_gpu.js"),
});
