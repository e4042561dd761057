/** Opens the base that a file is packed against as a safetensors file: the base itself, the file that it restores, or several as one. */

import { BaseRequiredError, FormatError, InvalidInputError } from "../errors.js";
import { Instance } from "../instance.js";
import { located, withHub } from "../resolve-hub-input.js";
import { Model } from "../model.js";
import type { ModelInput } from "../model-input.js";
import { isRemote, sourceOf } from "../model-source.js";
import { open, optionsFor } from "../open.js";
import type { AllPackOptions } from "../pack-options.js";
import type { Source } from "../source/source.js";
import { Traffic } from "../source/traffic.js";
import { withReadAhead } from "../source/with-read-ahead.js";
import { withStats } from "../source/with-stats.js";
import { BASE_OF_BASE, originalOf as originalFile } from "./original-file.js";

/** An open base: the source of its safetensors file. `close` frees the model that was opened to restore it. */
export interface Base {
  /** The safetensors file, plain or restored on the fly. */
  source: Source;
  sizeBytes: number;
  close(): void;
}

/** The number of bytes that are read first to recognise the format. Opening and packing also read this many bytes first. */
const HEAD_BYTES = 32768;

/** The first byte of a shard index, which is JSON. */
const OPENING_BRACE = 0x7b;

/** Opens the base of `input`. Closing the result does not close a model that the caller passed. */
export async function openBase(given: ModelInput | Model, input: ModelInput, options: AllPackOptions, signal: AbortSignal): Promise<Base> {
  if (Array.isArray(given)) throw new InvalidInputError("`pack` takes one base. The program `zstn pack` packs a model against several.");
  if (given instanceof Model) return { ...(await originalOf(given)), close: () => {} };
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
    return { ...(await originalOf(model)), close: () => model.close() };
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

/** Returns the safetensors file that a model is or was packed from, with its reads counted. */
async function originalOf(model: Model): Promise<Omit<Base, "close">> {
  const { source, sizeBytes } = await originalFile(model, new Instance<unknown>(undefined, () => {}));
  return { source: withStats(source, new Traffic()), sizeBytes };
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
  throw error instanceof BaseRequiredError ? new BaseRequiredError(BASE_OF_BASE) : error;
}
