/** The interface of the glue scripts, which the Rust build generates. */

import type { WasmModule } from "./wasm-input.js";

/** The glue code of one instance that is about to be created. */
export interface Glue<T> {
  /** The imports with which the module is instantiated. */
  imports: object;
  /** Connects the glue to the instance, and returns the instance's interface. */
  start(instance: unknown, module: WasmModule): T;
}

/** The export of a glue script: creates the glue of one instance. It shares no state with the glue of other instances. */
export type CreateGlue<T> = () => Glue<T>;
