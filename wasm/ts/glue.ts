/** The interface of the glue scripts, which the Rust build writes. */

import type { WasmModule } from "./wasm-input.js";

/** The glue code of one instance that is about to be made. */
export interface Glue<T> {
  /** The imports of the instance. */
  imports: object;
  /** Connects the instance, and returns its interface. */
  start(instance: unknown, module: WasmModule): T;
}

/** The export of a glue script. Glue shares nothing with that of other instances. */
export type CreateGlue<T> = () => Glue<T>;
