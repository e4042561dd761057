/** Reads and decodes a whole tensor of a model that the WebAssembly core reads. */

import { readRanges } from "./byte-ranges.js";
import type { CoreInstance, CoreModel } from "./core.js";
import type { Decoder } from "./decode/decoder.js";
import { FormatError } from "./errors.js";
import type { OpenedModel } from "./opened-model.js";
import type { ProgressMeter } from "./progress.js";
import type { Source } from "./source/source.js";
import type { TensorInfo } from "./tensor.js";

/** A tensor to read. */
export interface TensorRead {
  readonly opened: OpenedModel;
  readonly sources: readonly Source[];
  readonly decoder: Decoder;
  /** Index of the tensor in the model. */
  readonly index: number;
  readonly info: TensorInfo;
  /** The output buffer, of exactly the tensor's length. Without it the result is a new array. */
  readonly into: Uint8Array<ArrayBuffer> | undefined;
  /** Reads the base's tensor of the same name, if decoding needs it. */
  readonly readBase: (() => Promise<Uint8Array<ArrayBuffer>>) | undefined;
  readonly signal: AbortSignal;
  readonly meter: ProgressMeter;
}

/** Returns the raw little-endian bytes of a tensor. */
export async function readTensor({ opened, sources, decoder, index, info, into, readBase, signal, meter }: TensorRead): Promise<Uint8Array<ArrayBuffer>> {
  const model = opened.model as CoreModel;
  const views = opened.files[info.parts[0]?.file ?? 0]?.views;
  const view = views && (await views.readView(model, index, info, signal, meter));
  if (view) return filled(view, into);
  const target = { instance: opened.instance as CoreInstance, model, index, info, sources };
  decoder.warmUp(target);
  const readOwn = readRanges(sources, info.parts, { signal, onBytes: meter.arrived });
  const [parts, reference] = readBase ? await Promise.all([readOwn, readBase()]) : [await readOwn];
  // The core of a closed model has been freed and must not be called.
  signal.throwIfAborted();
  const raw = await decoder.decode({ ...target, parts, reference, into, signal });
  if (raw.byteLength !== info.byteLength) {
    throw new FormatError(`The tensor ${info.name} should have ${info.byteLength} bytes, decoding gave ${raw.byteLength}.`, { tensor: info.name });
  }
  return raw;
}

function filled(bytes: Uint8Array<ArrayBuffer>, into: Uint8Array<ArrayBuffer> | undefined): Uint8Array<ArrayBuffer> {
  into?.set(bytes);
  return into ?? bytes;
}
