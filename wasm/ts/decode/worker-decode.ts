/** Decodes tensors inside a worker, with the WebAssembly modules that the pool sends. */

import type { Core } from "../core.js";
import * as formats from "../core/zstn_formats.js";
import * as reader from "../core/zstn_wasm.js";
import type { WorkerRequest } from "./message.js";

/** The instances; `true` is the key of the one with all formats. */
const cores = new Map<boolean, Core>();

/** Decodes a request with the module that it names. Instantiates the module if the request contains one. */
export function decode(request: WorkerRequest): Uint8Array<ArrayBuffer> {
  const { module } = request;
  if (module) {
    const { imports, start } = (request.formats ? formats : reader).create();
    cores.set(request.formats, start(new WebAssembly.Instance(module, imports as WebAssembly.Imports), module));
  }
  return cores.get(request.formats)!.decode(request.task, request.parts, request.reference);
}
