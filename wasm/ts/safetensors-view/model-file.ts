/** A model as a safetensors file: the file itself, the one it was packed from, or a generated one. */

import type { ModelInstance, CoreUnpacked } from "../core.js";
import { InvalidInputError } from "../errors.js";
import type { ReadOptions, Source } from "../source/source.js";
import { withSignal } from "../source/with-signal.js";
import type { TensorInfo } from "../tensor.js";
import { SafetensorsBlob } from "./blob.js";
import { TensorCache } from "./tensor-cache.js";
import { VirtualFile } from "./virtual-file.js";

/** Options of `model.asSafetensorsBlob`. */
export interface SafetensorsBlobOptions {
  /** The size of the cache of decoded tensors, in bytes. 64 MiB by default. The most recently used tensor is always kept. */
  cacheBytes?: number;
}

/** Two or three tensors of a small model, one of a large one. */
const DEFAULT_DECODED_BYTES = 64 << 20;

/** The parts of a model that are needed here. */
export interface Readable {
  kind: string;
  tensors: ReadonlyMap<string, TensorInfo>;
  files: readonly Source[];
  instance: ModelInstance;
  unpacked: CoreUnpacked;
  decode: (info: TensorInfo, signal: AbortSignal) => Promise<Uint8Array<ArrayBuffer>>;
}

/** Returns the file as a Blob, whose reads end with `signal`. */
export function modelBlob(model: Readable, { cacheBytes = DEFAULT_DECODED_BYTES }: SafetensorsBlobOptions, signal: AbortSignal): SafetensorsBlob {
  if (!(cacheBytes >= 0)) throw new InvalidInputError(`\`cacheBytes\` is a number of bytes, not ${String(cacheBytes)}.`);
  const file = withSignal(modelFile(model, cacheBytes), signal);
  const isOriginal = model.instance.call(() => model.unpacked.isOriginal());
  return new SafetensorsBlob(file, 0, file.size() as number, "application/octet-stream", isOriginal);
}

/** Returns the file. A single plain safetensors file is returned as it is. */
function modelFile(model: Readable, cacheBytes: number): Source {
  const { kind, tensors, files, instance, unpacked } = model;
  const plain = kind === "safetensors";
  if (plain && files.length === 1) {
    const sizeBytes = instance.call(() => unpacked.sizeBytes());
    return { size: () => sizeBytes, read: async (offset, length, options) => copyOf(await files[0]!.read(offset, length, options)) };
  }
  const infos = [...tensors.values()];
  if (plain) return new VirtualFile(instance, unpacked, (index, begin, end, signal) => readStored(files, infos[index]!, begin, end, signal && { signal }));
  const decoded = new TensorCache(cacheBytes, (index, signal) => model.decode(infos[index]!, signal));
  return new VirtualFile(instance, unpacked, async (index, begin, end, signal) => {
    const bytes = await decoded.get(index, infos[index]!.byteLength, signal);
    return bytes.subarray(begin, end);
  });
}

/** Reads a part of an uncompressed tensor, and nothing else. */
function readStored(files: readonly Source[], info: TensorInfo, begin: number, end: number, options: ReadOptions | undefined): Promise<Uint8Array> {
  const { file, offset } = info.parts[0]!;
  return files[file]!.read(offset + begin, end - begin, options);
}

/** Returns a copy: the bytes of a source may belong to a cache, or to the caller. */
function copyOf(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(bytes);
}
