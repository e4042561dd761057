/** The interface between a model and the code that decodes its tensors. */

import type { CoreModel, ModelInstance } from "../core.js";
import type { Source } from "../source/source.js";
import { toTransferable } from "../source/transferable.js";
import type { TensorInfo } from "../tensor.js";

/** The first byte of a band in its tensor, and the byte after its last one. */
export type BandSpan = readonly [begin: number, end: number];

/** The members of a model that decoding one of its tensors uses. */
export interface Decodable extends Pick<CoreModel, "decode" | "frameTask" | "isPlain" | "module" | "task"> {
  /** True if `task` is the task of a frame, which the module `reader` decodes. */
  readonly isFrame?: boolean;
  /** The bytes of the tensor to decode, if this is only a band of it. The parts are then the block table and the ranges. */
  readonly span?: BandSpan;
}

/** A tensor that can be decoded. */
export interface DecodeTarget {
  /** The instance that the model lives in. */
  instance: ModelInstance;
  model: Decodable;
  /** Index of the tensor in the model. */
  index: number;
  info: TensorInfo;
  /** The sources of the files of the model. */
  sources: readonly Source[];
}

/** A tensor to decode, with its stored bytes. */
export interface DecodeRequest extends DecodeTarget {
  /** The stored bytes of all parts. */
  parts: Uint8Array[];
  /**
   * The base's tensor that decoding needs, if it needs one. The memory is exclusively owned, so it may be transferred
   * to a worker.
   */
  reference: Uint8Array<ArrayBuffer> | undefined;
  /** The output buffer, of exactly the tensor's length. Without it the result is a new array. */
  into: Uint8Array<ArrayBuffer> | undefined;
  signal: AbortSignal;
}

/** The work of a pool, which determines whether a tensor is divided into bands. */
export interface PoolLoad {
  /** The maximum number of workers. */
  workers: number;
  /** The length of all tensors that wait or are being decoded, in bytes. */
  pendingBytes: number;
  /** The number of tensors that have been decoded. */
  decoded: number;
}

/** A decoder of tensors, on the calling thread or in workers. */
export interface Decoder {
  /** Returns the raw little-endian bytes of the tensor. */
  decode(request: DecodeRequest): Promise<Uint8Array<ArrayBuffer>>;
  /** Announces a tensor whose bytes are being fetched, so that a worker can start in the meantime. */
  warmUp(target: DecodeTarget): void;
  /** Returns the load of the pool if several workers may decode bands of this tensor; `undefined` otherwise. */
  divides?: ((target: DecodeTarget) => PoolLoad | undefined) | undefined;
}

/** The decoder that runs on the calling thread. */
export const inline: Decoder = {
  async decode({ instance, model, index, parts, reference, into }) {
    return instance.call(() => {
      if (!model.isPlain(index)) return model.decode(index, parts, reference, into);
      const [bytes] = parts;
      if (!into) return toTransferable(bytes!);
      into.set(bytes!);
      return into;
    });
  },
  warmUp() {},
};
