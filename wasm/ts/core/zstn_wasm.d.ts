/** The glue code of the module for reading, which the Rust build generates. */

import type { Core } from "../core.js";
import type { CreateGlue } from "../glue.js";

export const create: CreateGlue<Core>;
