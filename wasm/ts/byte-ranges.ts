/** Byte ranges of the files of a model, and reading several of them. */

import { abortSiblingsOnFailure } from "./abort-siblings.js";
import type { ReadOptions, Source } from "./source/source.js";
import type { StoredPart } from "./tensor.js";

/** Parses ranges as the core returns them: `[file, offset, length, …]`. */
export function parseRanges(triples: Float64Array): StoredPart[] {
  return Array.from({ length: triples.length / 3 }, (_, i) => ({ file: triples[3 * i]!, offset: triples[3 * i + 1]!, length: triples[3 * i + 2]! }));
}

/** Returns the length of all ranges together, in bytes. */
export function totalBytes(parts: readonly StoredPart[]): number {
  return parts.reduce((sum, { length }) => sum + length, 0);
}

/** Reads all ranges at the same time; empty ones cost no request. When one read fails, the others are stopped. */
export function readRanges(sources: readonly Source[], parts: readonly StoredPart[], options: ReadOptions): Promise<Uint8Array[]> {
  const read = async ({ file, offset, length }: StoredPart, options: ReadOptions) =>
    length === 0 ? new Uint8Array(0) : sources[file]!.read(offset, length, options);
  const readAll = (options: ReadOptions) => Promise.all(parts.map((part) => read(part, options)));
  // Creating a signal costs more than a small tensor, and a single read has no others to stop.
  return parts.length > 1 ? abortSiblingsOnFailure([options.signal], (signal) => readAll({ ...options, signal })) : readAll(options);
}
