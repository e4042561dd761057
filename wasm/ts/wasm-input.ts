/** The types of WebAssembly modules and of their sources. */

/** A compiled module. The type is spelled so that it also compiles without installed WebAssembly types. */
export type WasmModule = typeof globalThis extends { WebAssembly: { Module: { prototype: infer M } } } ? M : never;

/** The source of a WebAssembly module: a URL, a response of `fetch`, its bytes, or the compiled module. */
export type CoreInput = string | URL | Response | ArrayBuffer | ArrayBufferView<ArrayBuffer> | WasmModule;
