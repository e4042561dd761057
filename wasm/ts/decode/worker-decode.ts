/** Decoding inside a worker, with the WebAssembly modules that it loads. */

import * as formats from "../core/zstn_formats.js";
import * as reader from "../core/zstn_wasm.js";
import type { CoreDecode } from "../core.js";
import type { Glue } from "../module.js";
import type { WorkerRequest } from "./message.js";

/** Decodes with the module that the request names. */
export function decode(request: WorkerRequest): Uint8Array<ArrayBuffer> {
  const glue = (request.formats ? formats : reader) as unknown as Glue & { decode: CoreDecode };
  if (request.module) glue.initSync({ module: request.module });
  return glue.decode(request.recipe, request.parts, request.reference);
}
