/**
 * Decodes one tensor in several workers. Every worker gets the stored bytes of a band, which consists of whole blocks, and
 * compares each block with its checksum.
 *
 * This module is loaded with the first large tensor. It imports only types, so that bundlers need not move other modules
 * of the package to chunks of their own.
 */

import type { FrameTensor } from "../zstn/frame-tensor.js";
import type { BandSpan, Decodable, Decoder, DecodeRequest, PoolLoad } from "./decoder.js";

type Bytes = Uint8Array<ArrayBuffer>;

/** A tensor that is decoded from one frame, with its stored bytes. */
type FrameRequest = DecodeRequest & { model: FrameTensor };

/** The least number of bytes in a band. A round trip to a worker takes some tenths of a millisecond. */
const MIN_BAND_BYTES = 1 << 20;

/** A tensor is decoded as a whole if that takes one worker at most this many times its share of all work. */
const UNEVEN = 1.25;

/**
 * The most decoded bytes for each stored byte of a tensor that is divided. The memory for the result is allocated before
 * the first band is decoded, so a damaged file must not determine its length alone.
 */
const MAX_RATIO = 64;

/** The codes of the errors with which the core refuses stored bytes or a block table. */
const REFUSALS: readonly unknown[] = ["malformed", "unsupported", "limit", "invalid_input"];

/**
 * Decodes a tensor like `decoder`. It is divided into bands if the pool has too little other work for all its workers.
 * `table` is the block table. If a band is refused, or there is not enough memory for the result, the whole tensor is
 * decoded, which reports the same error as a read without bands.
 */
export async function decodeInBands(request: FrameRequest, table: Uint8Array, decoder: Decoder, load: PoolLoad): Promise<Bytes> {
  const { info, signal } = request;
  load.pendingBytes += info.byteLength;
  try {
    // Tensors whose bytes have arrived at the same time are queued first, so that the load includes them.
    await nextTask();
    signal.throwIfAborted();
    if (info.byteLength > UNEVEN * (load.pendingBytes / load.workers)) {
      const bands = new Bands(request, table, load);
      if (bands.canDivide) return await bands.decode(decoder);
    }
  } catch (error) {
    const isRefusal = error instanceof RangeError || REFUSALS.includes((error as { code?: unknown }).code);
    if (signal.aborted || !isRefusal) throw error;
  } finally {
    load.pendingBytes -= info.byteLength;
  }
  return decoder.decode(request);
}

/** Resolves after the current task of the event loop and its microtasks. Unlike timers, browsers do not throttle messages. */
function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(undefined);
  });
}

/** The bands of one tensor. */
class Bands {
  readonly #request: FrameRequest;
  readonly #table: Uint8Array;
  readonly #load: PoolLoad;
  readonly #stop = new AbortController();
  readonly #signal: AbortSignal;
  /** The number of bytes of the tensor that are decoded together. */
  readonly #unitBytes: number;
  /** The first byte that is in no band yet. */
  #begin = 0;

  constructor(request: FrameRequest, table: Uint8Array, load: PoolLoad) {
    this.#request = request;
    this.#table = table;
    this.#load = load;
    this.#signal = AbortSignal.any([request.signal, this.#stop.signal]);
    this.#unitBytes = request.model.partRanges(table, 0, 1)[0]!;
  }

  get canDivide(): boolean {
    const storedBytes = this.#request.parts[0]!.byteLength;
    return this.#unitBytes > 0 && this.#unitBytes <= this.#lengthBytes / 2 && this.#lengthBytes <= MAX_RATIO * storedBytes;
  }

  get #lengthBytes(): number {
    return this.#request.info.byteLength;
  }

  async decode(decoder: Decoder): Promise<Bytes> {
    const output = this.#request.into ?? new Uint8Array(this.#lengthBytes);
    const decodeBands = async () => {
      while (this.#begin < this.#lengthBytes) {
        const at = this.#begin;
        output.set(await decoder.decode(this.#next()), at);
      }
    };
    try {
      // One band more than there are workers waits in the queue, so that no worker is idle while results are copied.
      await Promise.all(Array.from({ length: this.#load.workers + 1 }, decodeBands));
    } catch (error) {
      this.#stop.abort(error);
      throw error;
    }
    this.#load.decoded += 1;
    return output;
  }

  /**
   * Takes the next band, with a copy of its stored bytes. Bands become shorter towards the end of the tensor, so that all
   * workers finish at the same time.
   */
  #next(): DecodeRequest {
    const { model, info, parts } = this.#request;
    const wantedBytes = Math.max(MIN_BAND_BYTES, this.#remainingShare() / 2);
    const begin = this.#begin;
    const end = begin + Math.ceil(wantedBytes / this.#unitBytes) * this.#unitBytes;
    const span: BandSpan = [begin, this.#lengthBytes - end < MIN_BAND_BYTES ? this.#lengthBytes : end];
    const [, ...ranges] = model.partRanges(this.#table, ...span);
    const stored = [this.#table.slice()];
    for (let i = 0; i < ranges.length; i += 2) {
      const at = ranges[i]! - info.parts[0]!.offset;
      stored.push(new Uint8Array(parts[0]!.subarray(at, at + ranges[i + 1]!)));
    }
    this.#begin = span[1];
    return { ...this.#request, model: bandOf(model, span), info: { ...info, byteLength: span[1] - begin }, parts: stored, into: undefined, signal: this.#signal };
  }

  /** Returns the share of one worker in the bytes of all tensors that are not yet decoded or in a band. */
  #remainingShare(): number {
    // The load counts the whole tensor, and its bands in addition.
    return (this.#load.pendingBytes - this.#begin) / this.#load.workers;
  }
}

/** Returns a band of a tensor, for decoders. Its parts are the block table and the ranges. */
function bandOf(model: FrameTensor, span: BandSpan): Decodable {
  return {
    isFrame: true,
    span,
    isPlain: () => false,
    task: () => model.task(),
    frameTask: () => undefined,
    module: () => model.module(),
    decode: (_index, [table, ...ranges]) => model.decodePart(table!, ...span, ranges),
  };
}
