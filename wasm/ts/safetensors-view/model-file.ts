/** A model as a safetensors file: the file itself, the one it was packed from, or a generated one. */

import type { ModelInstance, CoreUnpacked } from "../core.js";
import { checkOptions } from "../known-options.js";
import type { OptionNames } from "../known-options.js";
import { atLeast } from "../source/option.js";
import type { Source } from "../source/source.js";
import { withSignal } from "../source/with-signal.js";
import type { TensorInfo } from "../tensor.js";
import { SafetensorsBlob } from "./blob.js";
import { loadGeneratedFile } from "./generated-file-loader.js";

/** Options of `model.asSafetensorsBlob`. */
export interface SafetensorsBlobOptions {
  /**
   * The size of the cache of decoded tensors, in bytes. 64 MiB by default. The most recently used tensor always stays
   * in the cache.
   */
  cacheBytes?: number;
}

/** The default cache size, enough for two or three tensors of a small model, or one of a large model. */
const DEFAULT_DECODED_BYTES = 64 << 20;

/** The members of a model that a generated file uses. */
export interface Readable {
  kind: string;
  /** Returns whether the stored bytes of a tensor are the tensor itself. */
  isPlain: (index: number) => boolean;
  tensors: ReadonlyMap<string, TensorInfo>;
  files: readonly Source[];
  instance: ModelInstance;
  unpacked: CoreUnpacked;
  decode: (info: TensorInfo, signal: AbortSignal) => Promise<Uint8Array<ArrayBuffer>>;
}

/** Returns the model as a safetensors file that is read like a `Blob`. All its reads abort with `signal`. */
export function modelBlob(model: Readable, options: SafetensorsBlobOptions, signal: AbortSignal): SafetensorsBlob {
  checkOptions("asSafetensorsBlob()", options, { cacheBytes: 1 } satisfies OptionNames<SafetensorsBlobOptions>);
  const cacheBytes = atLeast("cacheBytes", options.cacheBytes ?? DEFAULT_DECODED_BYTES);
  const file = withSignal(modelFile(model, cacheBytes), signal);
  const isOriginal = model.instance.call(() => model.unpacked.isOriginal());
  return new SafetensorsBlob(file, 0, file.size() as number, "application/octet-stream", isOriginal);
}

/** Returns the source of the model's safetensors file. A single plain file is read directly. */
function modelFile(model: Readable, cacheBytes: number): Source {
  const { kind, files, instance, unpacked } = model;
  const sizeBytes = instance.call(() => unpacked.sizeBytes());
  if (kind === "safetensors" && files.length === 1) {
    return { size: () => sizeBytes, read: async (offset, length, options) => copyOf(await files[0]!.read(offset, length, options)) };
  }
  let file: Source | undefined;
  return {
    size: () => sizeBytes,
    async read(offset, length, options) {
      const { generatedFile } = await loadGeneratedFile();
      options?.signal?.throwIfAborted(); // The core of a closed model has been freed and must not be called.
      return (file ??= generatedFile(model, cacheBytes)).read(offset, length, options);
    },
  };
}

/** Returns a copy, because the bytes of a source may belong to a cache or to the caller. */
function copyOf(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(bytes);
}
