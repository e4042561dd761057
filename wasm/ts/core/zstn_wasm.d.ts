/** The glue of the module for reading, which the Rust build writes. */

import type { Core } from "../core.js";
import type { CreateGlue } from "../glue.js";

export const create: CreateGlue<Core>;
