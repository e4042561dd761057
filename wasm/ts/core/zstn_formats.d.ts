/** The type of the generated glue code of the module with all formats. The Rust build writes the script; this declaration is written by hand. */

export { create } from "./zstn_wasm.js";
