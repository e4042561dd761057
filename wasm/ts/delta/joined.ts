/** A model in several files as the one safetensors file that is the base of deltas (docs/formats/zstn-delta.md 8). */

import type { ModelInstance } from "../core.js";
import { Instance } from "../instance.js";
import type { Model } from "../model.js";
import { TensorCache } from "../safetensors-view/tensor-cache.js";
import { VirtualFile } from "../safetensors-view/virtual-file.js";
import { PlainLayout, writeHead } from "../safetensors/plain-layout.js";
import { compareText } from "../safetensors/utf8-order.js";

/** The size of the cache of decoded tensors, in bytes. */
const CACHE_BYTES = 64 << 20;

/** Returns a file with all tensors of `model` in ascending order of their names. They are decoded when they are read. */
export function joined(model: Model): VirtualFile {
  const tensors = [...model.tensors.values()].sort((a, b) => compareText(a.name, b.name));
  const layout = new PlainLayout(writeHead([], tensors), tensors, false);
  const decode = async (index: number, signal: AbortSignal) => (await model.tensor(tensors[index]!.name, { signal })).bytes as Uint8Array<ArrayBuffer>;
  const cache = new TensorCache(CACHE_BYTES, decode);
  // The layout is not in WebAssembly, so it needs no instance of it.
  const instance: ModelInstance = new Instance<unknown>(undefined, () => {});
  return new VirtualFile(instance, layout, async (index, begin, end, signal) => {
    const bytes = await cache.get(index, tensors[index]!.byteLength, signal);
    return bytes.subarray(begin, end);
  });
}
