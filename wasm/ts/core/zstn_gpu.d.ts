/** The type of the generated glue code of the module for GPUs. The Rust build writes the script; this declaration is written by hand. */

import type { GpuCore } from "../gpu-module.js";
import type { CreateGlue } from "../glue.js";

export const create: CreateGlue<GpuCore>;
