/** Writes a packed file as it is produced, without blocking the event loop for long. */

import type { Sink } from "./sink.js";
import { abortable } from "./source/abortable.js";

/** The time that packing may block the event loop, in milliseconds. It is short, so that a button can abort packing. */
const TURN_MS = 30;

/**
 * Writes the chunks that `next` returns, which may be empty, until it returns `undefined`. Resolves to the total length
 * of all chunks, in bytes.
 */
export async function writePieces(sink: Sink, signal: AbortSignal | undefined, next: () => Promise<Uint8Array<ArrayBuffer> | undefined>): Promise<number> {
  let size = 0;
  let turn = performance.now();
  for (let piece = await next(); piece; piece = await next()) {
    size += piece.byteLength;
    if (piece.byteLength > 0) await abortable(sink.write(piece), signal);
    if (performance.now() - turn > TURN_MS) {
      await new Promise((resolve) => setTimeout(resolve));
      turn = performance.now();
    }
    signal?.throwIfAborted();
  }
  return size;
}
