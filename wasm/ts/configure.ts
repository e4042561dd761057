/** Settings of the whole package. */

import { checkOptions } from "./known-options.js";
import type { OptionNames } from "./known-options.js";
import { InvalidInputError } from "./errors.js";
import type { CoreInput } from "./wasm-input.js";

/** The WebAssembly modules of this package. */
export interface WasmFiles {
  /** `zstn/zstn_wasm_bg.wasm`, which `open` loads. */
  reader?: CoreInput;
  /** `zstn/zstn_formats_bg.wasm`, loaded when a zTensor, Gauss or compressed-tensors file or a delta is opened, or with `verify: "full"`. */
  formats?: CoreInput;
  /** `zstn/zstn_coder_bg.wasm`, loaded by `pack`, `compress`, `decompress`, `compressDelta` and `decompressDelta`. */
  coder?: CoreInput;
}

/** Settings for `configure`. */
export interface Configuration {
  /** The WebAssembly modules that are not next to the scripts. Each has to be set before it is first needed. */
  wasm?: WasmFiles;
  /**
   * Creates a `Worker` (in Node, one of `node:worker_threads`) whose script imports `zstn/worker`. Needed where a bundler
   * does not include that script, or where this package is loaded from another origin than the page.
   */
  createWorker?: () => object;
}

/** The current settings. */
export const settings: { readonly wasm: WasmFiles; createWorker: (() => object) | undefined } = { wasm: {}, createWorker: undefined };

/** The modules that are loaded, and cannot be replaced any more. */
export const loadedModules = /* @__PURE__ */ new Set<keyof WasmFiles>();

/**
 * Sets where the files of this package are, if they are not next to its scripts. Settings that are not given stay as
 * they are. Throws an `InvalidInputError` for a module that is loaded already.
 */
export function configure(configuration: Configuration): void {
  checkOptions("configure()", configuration, { wasm: 1, createWorker: 1 } satisfies OptionNames<Configuration>);
  const { wasm = {}, createWorker } = configuration;
  checkOptions("configure().wasm", wasm, { reader: 1, formats: 1, coder: 1 } satisfies OptionNames<WasmFiles>);
  for (const name of Object.keys(wasm) as (keyof WasmFiles)[]) {
    if (loadedModules.has(name)) throw new InvalidInputError(`The WebAssembly module \`${name}\` is loaded already: call configure() before it is first used.`);
  }
  Object.assign(settings.wasm, wasm);
  if (createWorker) settings.createWorker = createWorker;
}
