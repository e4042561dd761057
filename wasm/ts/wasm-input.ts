/** Where WebAssembly modules come from. */

/** A compiled module. Spelled so that these types also work where no types of WebAssembly are installed. */
export type WasmModule = typeof globalThis extends { WebAssembly: { Module: { prototype: infer M } } } ? M : never;

/** The source of a WebAssembly module: a URL, a response of `fetch`, its bytes, or the compiled module. */
export type CoreInput = string | URL | Response | ArrayBuffer | ArrayBufferView<ArrayBuffer> | WasmModule;
