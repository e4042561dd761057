/** Loading the WebAssembly modules of this package, each once, when it is first needed. */

import { CoreLoadError } from "./errors.js";

/** A compiled module. Spelled so that these types also work where no types of WebAssembly are installed. */
export type WasmModule = typeof globalThis extends { WebAssembly: { Module: { prototype: infer M } } } ? M : never;

/** The source of a WebAssembly module: a URL, a response of `fetch`, its bytes, or the compiled module. */
export type CoreInput = string | URL | Response | ArrayBuffer | ArrayBufferView<ArrayBuffer> | WasmModule;

/** The entry points of the glue code that wasm-bindgen generates. */
export interface Glue {
  default(input: { module_or_path: CoreInput }): Promise<unknown>;
  initSync(input: { module: Exclude<CoreInput, string | URL | Response> }): unknown;
}

/** Starts the glue with `input`, or with the file next to this package's code. */
export type Start = (glue: Glue, input: CoreInput | undefined) => Promise<unknown> | unknown;

/** A module of this package. */
export interface Loadable {
  /** Name of the file, for messages. */
  file: string;
  /** The function that loads the module from another URL, for messages. */
  loader: string;
  glue: () => Glue | Promise<Glue>;
}

/** Returns a function that loads the module once. A failed attempt may be repeated. */
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
    return glue as T; // its own declarations say less than the interfaces of core.ts and pack-module.ts
  } catch (cause) {
    throw new CoreLoadError(
      `A WebAssembly part of zstn (${module.file}) could not be loaded. Check that it is served next to the scripts, or pass its ` +
        `URL to ${module.loader}(url). A page with a Content-Security-Policy must allow 'wasm-unsafe-eval' in script-src.`,
      { cause },
    );
  }
}
