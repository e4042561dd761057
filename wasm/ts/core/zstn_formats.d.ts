/** The glue of the module with all formats, which the Rust build writes. */

export { create } from "./zstn_wasm.js";
