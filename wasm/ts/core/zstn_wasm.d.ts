/** The type of the generated glue code of the module that decodes packed tensors. The Rust build writes the script; this declaration is written by hand. */

import type { CreateGlue } from "../glue.js";
import type { ReaderCore } from "../reader-core.js";

export const create: CreateGlue<ReaderCore>;
