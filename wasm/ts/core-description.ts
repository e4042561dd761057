/** Parses the description of a model that the WebAssembly core returns (`wasm/src/description.rs`). */

import { toZstnError } from "./core-errors.js";
import type { CoreInstance, CoreModel } from "./core.js";
import type { Description } from "./description.js";
import { DTYPES_IN_ORDER } from "./safetensors/header.js";
import { SHORT_DIGEST_BYTES, shortDigest } from "./short-digest.js";
import type { StoredPart, TensorInfo } from "./tensor.js";

/** Returns the description of `model`, which lives in `core`. */
export function describe(core: CoreInstance, model: CoreModel): Description {
  const [kind, originalSize, text, numbers, refused] = core.call(() => model.describe());
  let position = 0;
  let begin = 0;
  const next = () => numbers[position++]!;
  const times = <T>(count: number, item: () => T): T[] => Array.from({ length: count }, item);
  const nextText = () => text.slice(begin, (begin += next()));
  const nextPart = (): StoredPart => ({ file: next(), offset: next(), length: next() });
  // The metadata come first in the stream of numbers, so they must be read before the tensors.
  const metadata = Object.fromEntries(times(next(), () => [nextText(), nextText()]));
  const aliases = new Map<TensorInfo, number>();
  const tensors: TensorInfo[] = [];
  while (position < numbers.length) {
    const name = nextText();
    const dtype = DTYPES_IN_ORDER[next()]!;
    const shape = times(next(), next);
    const [byteLength, storedLength, base, alias] = [next(), next(), next(), next()];
    const format = nextText();
    const quantised = format && { format, originalLength: next() };
    const info: TensorInfo = {
      name,
      dtype,
      shape,
      byteLength,
      storedLength,
      parts: times(next(), nextPart),
      ...(base > 0 && { base: base === 1 ? "copy" : "delta" }),
      ...quantised,
    };
    if (alias >= 0) aliases.set(info, alias);
    tensors.push(info);
  }
  const digests = core.call(() => model.digests());
  for (const [number, info] of tensors.entries()) {
    const digest = shortDigest(digests, number * SHORT_DIGEST_BYTES);
    // The core returns zeros for a tensor whose file has no digest of it.
    if (/[^0]/.test(digest)) Object.assign(info, { digest });
  }
  for (const [info, alias] of aliases) Object.assign(info, { aliasOf: tensors[alias]!.name });
  return { kind, originalSize, metadata, tensors, refused: refused.map(toZstnError) };
}
