/** The messages between a pool and its workers. */

import type { WasmModule } from "../wasm-input.js";

/** A request to a worker: one tensor to decode. */
export interface WorkerRequest {
  /** Whether decoding takes the module with all formats. */
  formats: boolean;
  /** That module, compiled, unless this worker has it already. */
  module: WasmModule | undefined;
  /** The core's description of the tensor. */
  task: Uint8Array<ArrayBuffer>;
  parts: Uint8Array[];
  reference: Uint8Array | undefined;
}

/** A message from a worker: it has started, or the response to its only request. */
export type WorkerResponse =
  | { ready: true }
  | { bytes: Uint8Array<ArrayBuffer> }
  /** What the core threw to reject the input. */
  | { rejection: unknown }
  /** The core trapped. Its instance can no longer be trusted. */
  | { trap: string };

/** Decodes a request, or throws what the core throws. */
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
