/** Writing a packed file while it is made, without blocking the event loop for long. */

import type { Sink } from "./sink.js";
import { abortable } from "./source/abortable.js";

/** How long packing may block the event loop, in milliseconds, so that a button can abort it. */
const TURN_MS = 30;

/** Writes what `next` returns, which may be no bytes, until it returns `undefined`. Returns the length of all pieces. */
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
