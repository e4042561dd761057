/** Decoding inside a worker, with the WebAssembly modules that it is sent. */

import type { Core } from "../core.js";
import * as formats from "../core/zstn_formats.js";
import * as reader from "../core/zstn_wasm.js";
import type { WorkerRequest } from "./message.js";

/** The instances, by whether they have all formats. */
const cores = new Map<boolean, Core>();

/** Decodes with the module that the request names. */
export function decode(request: WorkerRequest): Uint8Array<ArrayBuffer> {
  const { module } = request;
  if (module) {
    const { imports, start } = (request.formats ? formats : reader).create();
    cores.set(request.formats, start(new WebAssembly.Instance(module, imports as WebAssembly.Imports), module));
  }
  return cores.get(request.formats)!.decode(request.task, request.parts, request.reference);
}
