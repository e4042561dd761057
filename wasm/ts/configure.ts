/** Settings that apply to the whole package. */

import { checkOptions } from "./known-options.js";
import type { OptionNames } from "./known-options.js";
import { InvalidInputError } from "./errors.js";
import type { CoreInput } from "./wasm-input.js";

/** Sources of the WebAssembly modules of this package: the URL, the bytes or the compiled module of each. */
export interface WasmFiles {
  /**
   * `zstn/zstn_wasm_bg.wasm`, loaded with the first tensor of a file that was packed from safetensors, or when such a file
   * with a header over 32 KiB is opened.
   */
  reader?: CoreInput;
  /**
   * `zstn/zstn_formats_bg.wasm`, loaded when a delta, a file of another format than ZSTN and safetensors, a file that was
   * packed from one, or a damaged file is opened, or with `verify: "full"`.
   */
  formats?: CoreInput;
  /** `zstn/zstn_coder_bg.wasm`, loaded by `pack`, `compress`, `decompress`, `compressDelta` and `decompressDelta`. */
  coder?: CoreInput;
  /** `zstn/zstn_gpu_bg.wasm`, loaded by `model.readToGpu` for packed tensors. */
  gpu?: CoreInput;
}

/** The settings that `configure` accepts. */
export interface Configuration {
  /** The WebAssembly modules that are not next to the scripts of this package. Set each module before its first use. */
  wasm?: WasmFiles;
  /**
   * Creates a `Worker` (in Node, one of `node:worker_threads`) whose script imports `zstn/worker`. Needed if a bundler
   * does not include that script, or if this package is loaded from another origin than the page.
   */
  createWorker?: () => object;
}

/** The settings in effect. */
export const settings: { readonly wasm: WasmFiles; createWorker: (() => object) | undefined } = { wasm: {}, createWorker: undefined };

/** The modules that are loaded and therefore cannot be replaced. */
export const loadedModules = /* @__PURE__ */ new Set<keyof WasmFiles>();

/**
 * Sets where this package finds its own files, if they are not next to its scripts. Settings that are not passed keep
 * their value. Throws an `InvalidInputError` for a module that is already loaded.
 */
export function configure(configuration: Configuration): void {
  checkOptions("configure()", configuration, { wasm: 1, createWorker: 1 } satisfies OptionNames<Configuration>);
  const { wasm = {}, createWorker } = configuration;
  checkOptions("configure().wasm", wasm, { reader: 1, formats: 1, coder: 1, gpu: 1 } satisfies OptionNames<WasmFiles>);
  for (const name of Object.keys(wasm) as (keyof WasmFiles)[]) {
    if (loadedModules.has(name)) throw new InvalidInputError(`The WebAssembly module \`${name}\` is loaded already: call configure() before it is first used.`);
  }
  Object.assign(settings.wasm, wasm);
  if (createWorker) settings.createWorker = createWorker;
}
