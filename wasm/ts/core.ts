/** The seam to the WebAssembly core: what it offers, and loading it once, when it is first needed. */

import * as glue from "./core/zstn_wasm.js";
import { CoreLoadError } from "./errors.js";
import type { TensorInfo } from "./tensor.js";

/** Recognises a file from its first bytes and says which further ranges it needs. Does no I/O. */
export interface CoreOpening {
  /** [offset, length, offset, length, …] still missing; empty when ready. */
  needs(): Float64Array;
  supply(offset: number, bytes: Uint8Array): void;
  /** Uses up the opening. */
  finish(): CoreCatalog;
  free(): void;
}

/** What a recognised file contains. */
export interface CoreCatalog {
  kind(): string;
  metadata(): Record<string, string>;
  /** In data order. */
  tensors(): TensorInfo[];
  /** Length of the safetensors file that this is or was packed from, in bytes. */
  originalBytes(): number;
  /** Stored bytes to the raw little-endian bytes of the tensor, in a fresh array. */
  decode(index: number, stored: Uint8Array): Uint8Array<ArrayBuffer>;
  /** The same for a tensor that also needs the raw bytes of the base's tensor of its name. */
  decodeAgainst(index: number, stored: Uint8Array, base: Uint8Array): Uint8Array<ArrayBuffer>;
  /** Whether it is a delta. */
  needsBase(): boolean;
  /** Throws if the delta was made against something else. */
  checkBase(base: CoreCatalog): void;
  free(): void;
}

/** The core, loaded. */
export interface Core {
  readonly Opening: {
    new (sizeBytes: number, head: Uint8Array): CoreOpening;
    /** Length of the head that `new Opening` wants, in bytes. */
    headBytes(): number;
  };
}

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
export type StartCore = (glue: Glue, input: CoreInput | undefined) => Promise<unknown> | unknown;

/** Loads the core once; a failed attempt may be repeated. */
export function lazyCore(start: StartCore): (input?: CoreInput) => Promise<Core> {
  let loading: Promise<Core> | undefined;
  return (input) => {
    loading ??= load(start, input).catch((error: unknown) => {
      loading = undefined;
      throw error;
    });
    return loading;
  };
}

async function load(start: StartCore, input: CoreInput | undefined): Promise<Core> {
  try {
    await start(glue, input);
    return glue as Core; // its own declarations say less than the text above
  } catch (cause) {
    throw new CoreLoadError(
      "The WebAssembly part of zstn (zstn_wasm_bg.wasm) could not be loaded. Check that it is served beside the scripts, or name its " +
        "address with init(url). A page with a Content-Security-Policy must allow 'wasm-unsafe-eval' in script-src.",
      { cause },
    );
  }
}
