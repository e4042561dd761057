/** The first message to the worker that the threads belong to. */

import type { CoreInput } from "../module.js";

export interface Beginning {
  threads: number;
  /** The module, or where it is, if it is not beside the scripts. */
  module: CoreInput | undefined;
}
