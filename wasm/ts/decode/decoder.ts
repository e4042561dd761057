/** The seam between a model and where its tensors are decoded. */

import type { CoreModel } from "../core.js";
import { guarded } from "../rejection.js";
import { own } from "../source/given.js";
import type { TensorInfo } from "../tensor.js";
import type { WorkerPool } from "./pool.js";

/** A tensor that can be decoded. */
export interface Subject {
  model: CoreModel;
  /** Number of the tensor in it. */
  index: number;
  info: TensorInfo;
}

/** One tensor to decode. */
export interface Job extends Subject {
  /** The stored bytes of all parts. */
  parts: Uint8Array[];
  /** The base's tensor of its name, where it is needed. Nobody else has it. */
  reference: Uint8Array<ArrayBuffer> | undefined;
  /** Where the bytes go, of exactly their length; otherwise into an array that is the caller's alone. */
  into: Uint8Array<ArrayBuffer> | undefined;
  signal: AbortSignal;
}

/** Decodes tensors, here or elsewhere. */
export interface Decoder {
  /** The raw little-endian bytes of the tensor. */
  decode(job: Job): Promise<Uint8Array<ArrayBuffer>>;
  /** This tensor will have to be decoded as soon as its bytes have arrived. */
  expect(subject: Subject): void;
}

/** Where a model has its tensors decoded. */
export interface Decoding {
  decoder: Decoder;
  /** Closed with the model. */
  ownPool?: WorkerPool;
}

/** Decodes on the thread that calls. */
export const inline: Decoder = {
  async decode({ model, index, parts, reference, into }) {
    return guarded(() => {
      if (!model.isPlain(index)) return model.decode(index, parts, reference, into);
      const [bytes] = parts;
      if (!into) return own(bytes!);
      into.set(bytes!);
      return into;
    });
  },
  expect() {},
};
