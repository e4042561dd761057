/** The generated safetensors file of a model. Its tensors are read and decoded when their bytes are read. */

import type { ReadOptions, Source } from "../source/source.js";
import type { TensorInfo } from "../tensor.js";
import type { Readable } from "./model-file.js";
import { TensorCache } from "./tensor-cache.js";
import { VirtualFile } from "./virtual-file.js";

/** Returns the source of the generated file, which caches up to `cacheBytes` bytes of decoded tensors. */
export function generatedFile({ kind, isPlain, tensors, files, instance, unpacked, decode }: Readable, cacheBytes: number): Source {
  const infos = [...tensors.values()];
  const decoded = new TensorCache(cacheBytes, (index, signal) => decode(infos[index]!, signal));
  return new VirtualFile(instance, unpacked, async (index, begin, end, signal) => {
    // The further files of a model that begins with a plain one may be packed.
    if (kind === "safetensors" && isPlain(index)) return readStored(files, infos[index]!, begin, end, signal && { signal });
    const bytes = await decoded.get(index, infos[index]!.byteLength, signal);
    return bytes.subarray(begin, end);
  });
}

/** Reads bytes `begin` to `end` of an uncompressed tensor, and nothing else. */
function readStored(files: readonly Source[], info: TensorInfo, begin: number, end: number, options: ReadOptions | undefined): Promise<Uint8Array> {
  const { file, offset } = info.parts[0]!;
  return files[file]!.read(offset + begin, end - begin, options);
}
