/** Reads whole tensors of models in the WebAssembly core. */

import { readRanges } from "./byte-ranges.js";
import type { CoreModel } from "./core.js";
import type { Decoder, DecodeTarget } from "./decode/decoder.js";
import type { ReadFile } from "./opened-file.js";
import type { ProgressMeter } from "./progress.js";

/** A tensor of a model in the core. */
export type CoreTarget = DecodeTarget & { model: CoreModel };

/** How a tensor is read. */
export interface CoreRead {
  /** The files of the model. */
  files: readonly ReadFile[];
  decoder: Decoder;
  /** Reads the base's tensor that decoding needs, if it needs one. */
  readBase: (() => Promise<Uint8Array<ArrayBuffer>>) | undefined;
  signal: AbortSignal;
  meter: ProgressMeter;
  /** The output buffer, of exactly the tensor's length. Without it the result is a new array. */
  into: Uint8Array<ArrayBuffer> | undefined;
}

/** Reads and decodes a tensor. Resolves to its raw bytes. */
export async function readCoreTensor(target: CoreTarget, { files, decoder, readBase, signal, meter, into }: CoreRead): Promise<Uint8Array<ArrayBuffer>> {
  const { info, sources } = target;
  const views = files[info.parts[0]?.file as number]?.views;
  const view = views?.readView(target, signal, meter, into);
  if (view) return view;
  decoder.warmUp(target);
  const readOwn = readRanges(sources, info.parts, { signal, onBytes: meter.arrived });
  const [parts, reference] = readBase ? await Promise.all([readOwn, readBase()]) : [await readOwn];
  // The core of a closed model has been freed and must not be called.
  signal.throwIfAborted();
  return decoder.decode({ ...target, parts, reference, into, signal });
}
