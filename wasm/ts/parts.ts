/** Ranges of the files of a model, and reading several of them. */

import { sideBySide } from "./side-by-side.js";
import type { ReadOptions, Source } from "./source/source.js";
import type { StoredPart } from "./tensor.js";

/** Ranges as the core gives them, `[file, offset, length, …]`. */
export function storedParts(triples: Float64Array): StoredPart[] {
  return Array.from({ length: triples.length / 3 }, (_, i) => ({ file: triples[3 * i]!, offset: triples[3 * i + 1]!, length: triples[3 * i + 2]! }));
}

/** Bytes of all of them. */
export function partsBytes(parts: readonly StoredPart[]): number {
  return parts.reduce((sum, { length }) => sum + length, 0);
}

/** Reads them at the same time, and none that is empty. When one fails the others are stopped. */
export function readParts(sources: readonly Source[], parts: readonly StoredPart[], options: ReadOptions): Promise<Uint8Array[]> {
  const read = async ({ file, offset, length }: StoredPart, options: ReadOptions) =>
    length === 0 ? new Uint8Array(0) : sources[file]!.read(offset, length, options);
  const readAll = (options: ReadOptions) => Promise.all(parts.map((part) => read(part, options)));
  // A signal costs more than a small tensor, and one read has no others to stop.
  return parts.length > 1 ? sideBySide(options.signal, (signal) => readAll({ ...options, signal })) : readAll(options);
}
