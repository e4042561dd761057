/** The safetensors file that a model is, was packed from, or could be. */

import type { CoreUnpacked } from "../core.js";
import type { ReadOptions, Source } from "../source/source.js";
import type { TensorInfo } from "../tensor.js";
import { DecodedTensors } from "./decoded.js";
import { UnpackedFile } from "./unpacked.js";

/** What `model.asSafetensorsBlob` may be given. */
export interface SafetensorsBlobOptions {
  /** How much of decoded tensors is kept for the next slice, in bytes; 64 MiB unless said otherwise. The tensor used last is always kept. */
  cacheBytes?: number;
}

/** Two or three tensors of a small model, one of a large one. */
export const DEFAULT_DECODED_BYTES = 64 << 20;

/** What is needed of a model. */
export interface Readable {
  kind: string;
  tensors: ReadonlyMap<string, TensorInfo>;
  files: readonly Source[];
  unpacked: CoreUnpacked;
  decode: (info: TensorInfo, signal: AbortSignal) => Promise<Uint8Array<ArrayBuffer>>;
}

/** That file. A plain one in one piece is itself, byte for byte. */
export function modelFile(model: Readable, cacheBytes: number): Source {
  const { kind, tensors, files, unpacked } = model;
  const plain = kind === "safetensors";
  if (plain && files.length === 1) {
    const sizeBytes = unpacked.sizeBytes();
    return { size: () => sizeBytes, read: async (offset, length, options) => own(await files[0]!.read(offset, length, options)) };
  }
  const infos = [...tensors.values()];
  if (plain) return new UnpackedFile(unpacked, (index, begin, end, signal) => readStored(files, infos[index]!, begin, end, signal && { signal }));
  const decoded = new DecodedTensors(cacheBytes, (index, signal) => model.decode(infos[index]!, signal));
  return new UnpackedFile(unpacked, async (index, begin, end, signal) => {
    const bytes = await decoded.get(index, infos[index]!.byteLength, signal);
    return bytes.subarray(begin, end);
  });
}

/** What is stored as it is needs no more than the bytes asked for. */
function readStored(files: readonly Source[], info: TensorInfo, begin: number, end: number, options: ReadOptions | undefined): Promise<Uint8Array> {
  const { file, offset } = info.parts[0]!;
  return files[file]!.read(offset + begin, end - begin, options);
}

/** A source's bytes may be those of a cache, or the caller's. */
function own(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(bytes);
}
