/** Decodes tensors inside a worker, with the WebAssembly modules that the pool sends. */

import * as formats from "../core/zstn_formats.js";
import * as reader from "../core/zstn_wasm.js";
import type { Glue } from "../glue.js";
import type { WasmModule } from "../wasm-input.js";
import type { Handler, WorkerRequest } from "./message.js";

/** The functions that decode a request; `true` is the key of the module with all formats. */
const decoders = new Map<boolean, Handler>();

/** Decodes a request with the module that it names. Instantiates the module if the request contains one. */
export function decode(request: WorkerRequest): Uint8Array<ArrayBuffer> {
  const { module } = request;
  if (module && request.formats) {
    const { decode } = instantiate(formats.create(), module);
    decoders.set(true, ({ task, parts, reference }) => decode(task, parts, reference));
  } else if (module) {
    const { decodeFrame, decodePart } = instantiate(reader.create(), module);
    decoders.set(false, ({ task, parts, span }) => (span ? decodePart(task, parts[0]!, ...span, parts.slice(1)) : decodeFrame(task, parts[0]!)));
  }
  return decoders.get(request.formats)!(request);
}

function instantiate<T>({ imports, start }: Glue<T>, module: WasmModule): T {
  return start(new WebAssembly.Instance(module, imports as WebAssembly.Imports), module);
}
