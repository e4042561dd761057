/** Tensors one after the other, the next ones being read while the caller works. */

import { InvalidInputError } from "./errors.js";
import type { OnProgress } from "./progress.js";
import type { Tensor, TensorInfo } from "./tensor.js";

/** What `model.stream` may be given besides the names. */
export interface StreamOptions {
  /** Ends the stream and all its reads; it then throws the reason of the signal. */
  signal?: AbortSignal;
  /** Called while bytes arrive, with the sums over all tensors asked for. */
  onProgress?: OnProgress;
  /**
   * How much may be read ahead, in bytes; 128 MiB unless said otherwise. Stored and decoded bytes of tensors that
   * were not handed out yet both count. A tensor that is larger by itself is read alone.
   */
  maxBytes?: number;
}

/** Enough to keep a fast line busy while a tensor is worked on; a page may hold it. */
export const DEFAULT_AHEAD_BYTES = 128 << 20;

/** A tensor to come. */
export interface Ahead {
  info: TensorInfo;
  /** What it takes until it is handed out, in bytes. */
  heldBytes: number;
}

interface UnderWay {
  heldBytes: number;
  tensor: Promise<Tensor>;
}

/** Refuses a bound that is none. */
export function checkAhead(maxBytes: number): void {
  if (!(maxBytes >= 0)) throw new InvalidInputError(`\`maxBytes\` is a number of bytes, not ${String(maxBytes)}.`);
}

/**
 * The tensors in their order. At most `maxBytes` are under way; room is filled when half of it is free, so that
 * reads of several tensors begin in the same turn and can be joined. The first failure stops all reads;
 * what was complete before it in the order is handed out, then it is thrown.
 */
export async function* inOrder(
  tensors: readonly Ahead[],
  maxBytes: number,
  given: AbortSignal | undefined,
  read: (info: TensorInfo, signal: AbortSignal) => Promise<Tensor>,
): AsyncGenerator<Tensor, void, undefined> {
  const ended = new AbortController();
  const signal = given ? AbortSignal.any([given, ended.signal]) : ended.signal;
  const underWay: UnderWay[] = [];
  let heldBytes = 0;
  let next = 0;

  const fill = () => {
    if (underWay.length > 0 && heldBytes > maxBytes / 2) return;
    for (; next < tensors.length; next++) {
      const { info, heldBytes: itsBytes } = tensors[next]!;
      if (underWay.length > 0 && heldBytes + itsBytes > maxBytes) return;
      const tensor = read(info, signal);
      tensor.catch((error: unknown) => ended.abort(error));
      underWay.push({ heldBytes: itsBytes, tensor });
      heldBytes += itsBytes;
    }
  };

  try {
    for (;;) {
      given?.throwIfAborted();
      fill();
      const first = underWay[0];
      if (!first) return;
      const tensor = await first.tensor;
      given?.throwIfAborted();
      underWay.shift();
      heldBytes -= first.heldBytes;
      yield tensor;
    }
  } finally {
    ended.abort();
  }
}
