/** What goes between a pool and its workers. */

import type { WasmModule } from "../module.js";

/** To a worker: one tensor to decode. */
export interface Request {
  /** Whether it takes the module with all formats. */
  formats: boolean;
  /** That module, compiled, if this worker has not got it yet. */
  module: WasmModule | undefined;
  /** What the core has said of the tensor. */
  recipe: Uint8Array<ArrayBuffer>;
  parts: Uint8Array[];
  reference: Uint8Array | undefined;
}

/** From a worker, about its only request. */
export type Answer =
  /** It has started. */
  | { ready: true }
  | { bytes: Uint8Array<ArrayBuffer> }
  /** What the core has thrown: a rejection. */
  | { rejection: unknown }
  /** The core has stopped in the middle; it is of no use any more. */
  | { trap: string };

/** Decodes a request, or throws what the core throws. */
export type Answering = (request: Request) => Uint8Array<ArrayBuffer>;

/** The answer to a request, and what of it is handed over. */
export function answer(request: Request, decode: Answering): [Answer, ArrayBuffer[]] {
  try {
    const bytes = decode(request);
    return [{ bytes }, [bytes.buffer]];
  } catch (thrown) {
    return [thrown instanceof Error ? { trap: thrown.message } : { rejection: thrown }, []];
  }
}
