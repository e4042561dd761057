/** The base that a file is packed against, as the safetensors file that it is or restores. */

import { FormatError, InvalidInputError } from "../errors.js";
import { Model } from "../model.js";
import type { ModelInput } from "../model-input.js";
import { sourceOf } from "../model-source.js";
import { nameBase, open, optionsFor } from "../open.js";
import type { AllPackOptions } from "../pack-options.js";
import type { ReadOptions, Source } from "../source/source.js";
import { Traffic } from "../source/traffic.js";
import { withStats } from "../source/with-stats.js";

/** An open base. */
export interface Base {
  /** The safetensors file. */
  source: Source;
  sizeBytes: number;
  close(): void;
}

/** How much of a file is read to see what it is, in bytes: as much as opening and packing read first. */
const HEAD_BYTES = 32768;

/** The first byte of an index, which is JSON. */
const OPENING_BRACE = 0x7b;

/** Opens the base of `input`. A model that was passed stays open. */
export async function openBase(base: ModelInput | Model, input: ModelInput, options: AllPackOptions, signal: AbortSignal): Promise<Base> {
  if (base instanceof Model) return { ...originalOf(base), close: () => {} };
  const source = sourceOf(base, { ...optionsFor(base, input, options), coalesce: false }, new Traffic());
  const sizeBytes = await source.size({ signal });
  const headBytes = Math.min(sizeBytes, HEAD_BYTES);
  const head = headBytes > 0 ? await source.read(0, headBytes, { signal }) : new Uint8Array(0);
  const file = withHead(source, sizeBytes, head);
  if (mayBePlain(head)) return { source: file, sizeBytes, close: () => {} };
  if (head[0] === OPENING_BRACE) throw notABase("the index of a model in several files");
  const model = await open(file, { signal, config: false }).catch(ofBase);
  try {
    return { ...originalOf(model), close: () => model.close() };
  } catch (error) {
    model.close();
    throw error;
  }
}

/** Returns whether this begins like plain safetensors: with the length of a header below 4 GiB. Other formats have a magic number there. */
function mayBePlain(head: Uint8Array): boolean {
  return head.subarray(4, 8).every((byte) => byte === 0);
}

/** Returns the safetensors file that a model is or was packed from. */
function originalOf(model: Model): Omit<Base, "close"> {
  const file = model.asSafetensorsBlob();
  if (!file.isOriginal) {
    throw notABase(model.fileCount === 1 ? `one opened as ${model.kind}` : `a model in ${model.fileCount} files`);
  }
  const read = (offset: number, length: number, { signal }: ReadOptions = {}) => file.slice(offset, offset + length).bytes(signal && { signal });
  return { source: withStats({ size: () => file.size, read }, new Traffic()), sizeBytes: file.size };
}

function notABase(what: string): InvalidInputError {
  return new InvalidInputError(`A base is a safetensors file, or a .zstn or .z4dm file that restores one, and not ${what}.`);
}

/** Returns `source` with its head in memory, for those who read it first. */
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

/** Says that an error is about the base. */
function ofBase(error: unknown): never {
  if (error instanceof FormatError) throw new FormatError(`The base cannot be read: ${error.message}`, error, { cause: error });
  return nameBase(error);
}
