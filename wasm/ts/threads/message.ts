/** The first message to the worker that owns the threads. */

import type { CoreInput } from "../wasm-input.js";

export interface InitMessage {
  threads: number;
  /** The module or its URL, if it is not next to the scripts. */
  module: CoreInput | undefined;
}
