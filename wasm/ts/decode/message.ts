/** The messages that a pool and its workers exchange. */

import type { WasmModule } from "../wasm-input.js";
import type { BandSpan } from "./decoder.js";

/** A request to a worker: one tensor to decode, or one band of it. */
export interface WorkerRequest {
  /** True if decoding needs the module with all formats; false for the task of a frame. */
  formats: boolean;
  /** The compiled module; `undefined` if the worker already has it. */
  module: WasmModule | undefined;
  /** The serialised task. */
  task: Uint8Array<ArrayBuffer>;
  /** The stored bytes. For a band: the block table, then the bytes of its ranges. */
  parts: Uint8Array[];
  /** The bytes of the tensor to decode, if they are only a band of it. */
  span: BandSpan | undefined;
  reference: Uint8Array | undefined;
}

/** A message from a worker: the report that it has started, or the response to its current request. */
export type WorkerResponse =
  | { ready: true }
  | { bytes: Uint8Array<ArrayBuffer> }
  /** The value that the core threw to reject the input. */
  | { rejection: unknown }
  /** The core trapped. Its instance must not be used again. */
  | { trap: string };

/** Decodes a request. Throws the errors of the core. */
export type Handler = (request: WorkerRequest) => Uint8Array<ArrayBuffer>;

/** Returns the response to a request, and the buffers to transfer with it. */
export function handleRequest(request: WorkerRequest, decode: Handler): [WorkerResponse, ArrayBuffer[]] {
  try {
    const bytes = decode(request);
    return [{ bytes }, [bytes.buffer]];
  } catch (thrown) {
    return [thrown instanceof Error ? { trap: thrown.message } : { rejection: thrown }, []];
  }
}
