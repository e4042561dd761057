/** The glue code of the module for packing, which the Rust build generates. */

import type { PackCore } from "../pack-module.js";
import type { CreateGlue } from "../glue.js";

export const create: CreateGlue<PackCore>;
