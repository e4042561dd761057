/** The safetensors file that a model is, or was packed from. */

import { InvalidInputError } from "../errors.js";
import type { ModelInstance } from "../core.js";
import type { Model } from "../model.js";
import { loadGeneratedFile } from "../safetensors-view/generated-file-loader.js";
import { PlainLayout, writeHead } from "../safetensors/plain-layout.js";
import { compareText } from "../safetensors/utf8-order.js";
import type { ReadOptions, Source } from "../source/source.js";
import type { TensorInfo } from "../tensor.js";

/** A safetensors file, plain or restored on the fly. */
export interface OriginalFile {
  source: Source;
  sizeBytes: number;
  /** The bytes before its data, if it is made from several files. */
  head?: Uint8Array;
}

/** The message about a base that is a delta and was not opened with its own base. */
export const BASE_OF_BASE = "The base is a delta itself: open it with its own base, and pass that model as `base`.";

/** The size of the cache of decoded tensors of a model in several files. */
const DECODED_BYTES = 64 << 20;

/**
 * Returns the safetensors file that a model is or was packed from, or several of them as one. Rejects with an
 * `InvalidInputError` for other models. Any `instance` will do, because the layout is not in WebAssembly.
 */
export async function originalOf(model: Model, instance: ModelInstance): Promise<OriginalFile> {
  if (model.fileCount > 1 && ["safetensors", "zstn", "z4dm"].includes(model.kind)) {
    const [unreadable] = model.unreadable.values();
    if (unreadable) throw unreadable;
    return joined(model, instance);
  }
  const file = model.asSafetensorsBlob();
  if (!file.isOriginal) {
    throw new InvalidInputError(`A base is a safetensors file, or a .zstn or .z4dm file that restores one, and not one opened as ${model.kind}.`);
  }
  const read = (offset: number, length: number, { signal }: ReadOptions = {}) => file.slice(offset, offset + length).bytes(signal && { signal });
  return { source: { size: () => file.size, read }, sizeBytes: file.size };
}

/**
 * Returns the files of a model as one safetensors file, with the tensors in ascending order of their names
 * (docs/formats/zstn-delta.md 8).
 */
async function joined(model: Model, instance: ModelInstance): Promise<OriginalFile> {
  const tensors = new Map([...model.tensors].sort(([a], [b]) => compareText(a, b)));
  const infos = [...tensors.values()];
  const head = writeHead([], infos);
  const unpacked = new PlainLayout(head, infos, false);
  const decode = async ({ name }: TensorInfo, signal: AbortSignal) => (await model.tensor(name, { signal })).bytes as Uint8Array<ArrayBuffer>;
  const { generatedFile } = await loadGeneratedFile();
  const source = generatedFile({ kind: model.kind, isPlain: () => false, tensors, files: [], instance, unpacked, decode }, DECODED_BYTES);
  return { source, sizeBytes: unpacked.sizeBytes(), head };
}
