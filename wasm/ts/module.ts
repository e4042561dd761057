/** Loading one of the WebAssembly modules of this package, once, when it is first needed. */

import { CoreLoadError } from "./errors.js";

/** A compiled module; spelled so that these types also work where none for WebAssembly are installed. */
export type WasmModule = typeof globalThis extends { WebAssembly: { Module: { prototype: infer M } } } ? M : never;

/** Where the WebAssembly module comes from: an address, an answer of `fetch`, its bytes, or the module compiled already. */
export type CoreInput = string | URL | Response | ArrayBuffer | ArrayBufferView<ArrayBuffer> | WasmModule;

/** How the glue code is started; the names are those of wasm-bindgen. */
export interface Glue {
  default(input: { module_or_path: CoreInput }): Promise<unknown>;
  initSync(input: { module: Exclude<CoreInput, string | URL | Response> }): unknown;
}

/** Starts the glue with `input`, or with the file beside this package's code when there is none. */
export type Start = (glue: Glue, input: CoreInput | undefined) => Promise<unknown> | unknown;

/** A module as this package knows it. */
export interface Loadable {
  /** Name of its file, for messages. */
  file: string;
  /** The function that loads it from elsewhere, for messages. */
  loader: string;
  glue: () => Glue | Promise<Glue>;
}

/** Loads the module once; a failed attempt may be repeated. */
export function lazyModule<T>(module: Loadable, start: Start): (input?: CoreInput) => Promise<T> {
  let loading: Promise<T> | undefined;
  return (input) => {
    loading ??= load<T>(module, start, input).catch((error: unknown) => {
      loading = undefined;
      throw error;
    });
    return loading;
  };
}

async function load<T>(module: Loadable, start: Start, input: CoreInput | undefined): Promise<T> {
  try {
    const glue = await module.glue();
    await start(glue, input);
    return glue as T; // its own declarations say less than the interfaces of core.ts and coder.ts
  } catch (cause) {
    throw new CoreLoadError(
      `A WebAssembly part of zstn (${module.file}) could not be loaded. Check that it is served beside the scripts, or name its ` +
        `address with ${module.loader}(url). A page with a Content-Security-Policy must allow 'wasm-unsafe-eval' in script-src.`,
      { cause },
    );
  }
}
