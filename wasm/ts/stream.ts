/** Streams tensors: reads further tensors while the caller works on one. */

import { InvalidInputError } from "./errors.js";
import { checkOptions } from "./known-options.js";
import type { OptionNames } from "./known-options.js";
import { checkSize } from "./limits.js";
import { ProgressMeter } from "./progress.js";
import type { OnProgress } from "./progress.js";
import type { Tensor, TensorInfo } from "./tensor.js";

/** Options of `model.stream`. */
export interface StreamOptions {
  /** Aborts the stream and all its reads. The stream then throws the reason of the signal. */
  signal?: AbortSignal;
  /** Called as bytes arrive, with totals over all tensors of the stream. */
  onProgress?: OnProgress;
  /**
   * The number of bytes that may be read ahead. 128 MiB by default. It counts the stored and the decoded bytes of all
   * tensors that have not been yielded yet. A tensor that exceeds it is read alone.
   */
  readAheadBytes?: number;
}

/** This default keeps a fast connection busy while the caller works, and does not take too much memory for a page. */
const DEFAULT_READ_AHEAD_BYTES = 128 << 20;

/** The operations of a model that a stream needs. */
interface Streamed {
  /** Returns the description of a tensor. Rejects if there is no such tensor. */
  info: (name: string) => Promise<TensorInfo>;
  /** Returns the number of bytes to fetch for a tensor. */
  costBytes: (info: TensorInfo) => number;
  read: (info: TensorInfo, signal: AbortSignal, meter: ProgressMeter) => Promise<Tensor>;
}

/** Yields tensors in the order of their `names`. */
export async function* streamOf(names: Iterable<string>, options: StreamOptions, { info, costBytes, read }: Streamed): AsyncGenerator<Tensor, void, undefined> {
  checkOptions("stream()", options, { signal: 1, onProgress: 1, readAheadBytes: 1 } satisfies OptionNames<StreamOptions>);
  const { readAheadBytes = DEFAULT_READ_AHEAD_BYTES, signal, onProgress } = options;
  checkAhead(readAheadBytes);
  const tensors: Ahead[] = [];
  for (const name of names) {
    const found = await info(name);
    checkSize(found);
    tensors.push({ info: found, heldBytes: costBytes(found) + found.byteLength });
  }
  const meter = new ProgressMeter(onProgress, { stage: "stream" });
  meter.expect(tensors.reduce((sum, { info }) => sum + costBytes(info), 0));
  yield* inOrder(tensors, readAheadBytes, signal, (info, signal) => read(info, signal, meter));
}

/** A tensor to be read. */
interface Ahead {
  info: TensorInfo;
  /** The memory that the tensor takes until it is yielded, in bytes. */
  heldBytes: number;
}

interface UnderWay {
  heldBytes: number;
  tensor: Promise<Tensor>;
}

/** Throws an `InvalidInputError` unless the limit is a number of bytes. */
function checkAhead(readAheadBytes: number): void {
  if (!(readAheadBytes >= 0)) throw new InvalidInputError(`\`readAheadBytes\` must be a number of bytes, not ${String(readAheadBytes)}.`);
}

/**
 * Yields the tensors in order. Tensors in flight hold at most `readAheadBytes`. Further reads begin when half of that
 * is free, so that several tensors are requested in the same turn of the event loop and can be coalesced. The first
 * failure stops all reads; tensors before it in the order are still yielded, then the error is thrown.
 */
async function* inOrder(
  tensors: readonly Ahead[],
  readAheadBytes: number,
  given: AbortSignal | undefined,
  read: (info: TensorInfo, signal: AbortSignal) => Promise<Tensor>,
): AsyncGenerator<Tensor, void, undefined> {
  const ended = new AbortController();
  const signal = given ? AbortSignal.any([given, ended.signal]) : ended.signal;
  const underWay: UnderWay[] = [];
  let heldBytes = 0;
  let next = 0;

  const fill = () => {
    if (underWay.length > 0 && heldBytes > readAheadBytes / 2) return;
    for (; next < tensors.length; next++) {
      const { info, heldBytes: itsBytes } = tensors[next]!;
      if (underWay.length > 0 && heldBytes + itsBytes > readAheadBytes) return;
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
