/** Opens the base that a file is packed against as a safetensors file: the base itself, the file that it restores, or several as one. */

import type { ModelInstance } from "../core.js";
import { FormatError, InvalidInputError } from "../errors.js";
import { Instance } from "../instance.js";
import { located, withHub } from "../resolve-hub-input.js";
import { Model } from "../model.js";
import type { ModelInput } from "../model-input.js";
import { isRemote, sourceOf } from "../model-source.js";
import { nameBase, open, optionsFor } from "../open.js";
import type { AllPackOptions } from "../pack-options.js";
import { generatedFile } from "../safetensors-view/generated-file.js";
import { PlainLayout, writeHead } from "../safetensors/plain-layout.js";
import { compareText } from "../safetensors/utf8-order.js";
import type { ReadOptions, Source } from "../source/source.js";
import { Traffic } from "../source/traffic.js";
import { withReadAhead } from "../source/with-read-ahead.js";
import { withStats } from "../source/with-stats.js";
import type { TensorInfo } from "../tensor.js";

/** An open base: the source of its safetensors file. `close` frees the model that was opened to restore it. */
export interface Base {
  /** The safetensors file, plain or restored on the fly. */
  source: Source;
  sizeBytes: number;
  close(): void;
}

/** The number of bytes that are read first to recognise the format. Opening and packing also read this many bytes first. */
const HEAD_BYTES = 32768;

/** The size of the cache of decoded tensors of a base in several files. */
const DECODED_BYTES = 64 << 20;

/** The first byte of a shard index, which is JSON. */
const OPENING_BRACE = 0x7b;

/** Opens the base of `input`. Closing the result does not close a model that the caller passed. */
export async function openBase(given: ModelInput | Model, input: ModelInput, options: AllPackOptions, signal: AbortSignal): Promise<Base> {
  if (given instanceof Model) return { ...originalOf(given), close: () => {} };
  const wanted = await withHub(given, options.endpoint);
  const [base, optionsOfBase] = await located(wanted, { ...optionsFor(wanted, input, options), signal });
  const source = sourceOf(base, { ...optionsOfBase, coalesce: false }, new Traffic());
  const sizeBytes = await source.size({ signal });
  const headBytes = Math.min(sizeBytes, HEAD_BYTES);
  const head = headBytes > 0 ? await source.read(0, headBytes, { signal }) : new Uint8Array(0);
  const file = withHead(source, sizeBytes, head);
  if (mayBePlain(head)) return plainBase(file, sizeBytes, isRemote(base), options.signal);
  const isIndex = head[0] === OPENING_BRACE;
  const model = await (isIndex ? open(base, { ...optionsOfBase, config: false }) : open(file, { signal, config: false })).catch(ofBase);
  try {
    return { ...originalOf(model), close: () => model.close() };
  } catch (error) {
    model.close();
    throw error;
  }
}

async function plainBase(file: Source, sizeBytes: number, remote: boolean, signal: AbortSignal | undefined): Promise<Base> {
  if (!remote) return { source: file, sizeBytes, close: () => {} };
  const ahead = withReadAhead(file, signal);
  await ahead.size();
  return { source: ahead, sizeBytes, close: () => ahead.stop() };
}

/**
 * Returns whether the file begins like plain safetensors: with a header length below 4 GiB. Other formats have a magic
 * number at that place.
 */
function mayBePlain(head: Uint8Array): boolean {
  return head.subarray(4, 8).every((byte) => byte === 0);
}

/**
 * Returns the safetensors file that a model is or was packed from, or several of them as one. Throws an
 * `InvalidInputError` for other models.
 */
function originalOf(model: Model): Omit<Base, "close"> {
  if (model.fileCount > 1 && ["safetensors", "zstn", "z4dm"].includes(model.kind)) {
    const [unreadable] = model.unreadable.values();
    if (unreadable) throw unreadable;
    const source = joined(model);
    return { source: withStats(source, new Traffic()), sizeBytes: source.size() as number };
  }
  const file = model.asSafetensorsBlob();
  if (!file.isOriginal) throw notABase(`one opened as ${model.kind}`);
  const read = (offset: number, length: number, { signal }: ReadOptions = {}) => file.slice(offset, offset + length).bytes(signal && { signal });
  return { source: withStats({ size: () => file.size, read }, new Traffic()), sizeBytes: file.size };
}

/**
 * Returns the files of a model as one safetensors file, with the tensors in ascending order of their names
 * (docs/formats/zstn-delta.md 8).
 */
function joined(model: Model): Source {
  const tensors = new Map([...model.tensors].sort(([a], [b]) => compareText(a, b)));
  const infos = [...tensors.values()];
  const unpacked = new PlainLayout(writeHead([], infos), infos, false);
  const decode = async ({ name }: TensorInfo, signal: AbortSignal) => (await model.tensor(name, { signal })).bytes as Uint8Array<ArrayBuffer>;
  // The layout is not in WebAssembly, so it needs no instance of it.
  const instance: ModelInstance = new Instance<unknown>(undefined, () => {});
  return generatedFile({ kind: model.kind, isPlain: () => false, tensors, files: [], instance, unpacked, decode }, DECODED_BYTES);
}

function notABase(what: string): InvalidInputError {
  return new InvalidInputError(`A base is a safetensors file, or a .zstn or .z4dm file that restores one, and not ${what}.`);
}

/** Returns `source` with reads of its first bytes answered from `head`, because packing reads them again. */
function withHead(source: Source, sizeBytes: number, head: Uint8Array): Source {
  return {
    size: () => sizeBytes,
    async read(offset, length, options = {}) {
      if (offset > 0 || length > head.byteLength) return source.read(offset, length, options);
      options.onBytes?.(length);
      return head.subarray(0, length);
    },
  };
}

/** Rethrows an error with a message that names the base. */
function ofBase(error: unknown): never {
  if (error instanceof FormatError) throw new FormatError(`The base cannot be read: ${error.message}`, error, { cause: error });
  return nameBase(error);
}
