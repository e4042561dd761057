/** The glue code of the module with all formats, which the Rust build generates. */

export { create } from "./zstn_wasm.js";
