/** The type of the generated glue code of the module with all formats. The Rust build writes the script; this declaration is written by hand. */

import type { Core } from "../core.js";
import type { CreateGlue } from "../glue.js";

export const create: CreateGlue<Core>;
