/** The type of the generated glue code of the module for packing. The Rust build writes the script; this declaration is written by hand. */

import type { PackCore } from "../pack-module.js";
import type { CreateGlue } from "../glue.js";

export const create: CreateGlue<PackCore>;
