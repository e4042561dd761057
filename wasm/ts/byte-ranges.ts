/** Byte ranges in the files of a model, and functions that read several ranges at once. */

import { abortSiblingsOnFailure } from "./abort-siblings.js";
import type { ReadOptions, Source } from "./source/source.js";
import type { StoredPart } from "./tensor.js";

/** Parses the ranges that the core returns as a flat array: `[file, offset, length, …]`. */
export function parseRanges(triples: Float64Array): StoredPart[] {
  return Array.from({ length: triples.length / 3 }, (_, i) => ({ file: triples[3 * i]!, offset: triples[3 * i + 1]!, length: triples[3 * i + 2]! }));
}

/** Returns the total length of all ranges, in bytes. */
export function totalBytes(parts: readonly StoredPart[]): number {
  return parts.reduce((sum, { length }) => sum + length, 0);
}

/** Reads all ranges concurrently. Empty ranges need no request. When one read fails, the others are aborted. */
export function readRanges(sources: readonly Source[], parts: readonly StoredPart[], options: ReadOptions): Promise<Uint8Array[]> {
  const read = async ({ file, offset, length }: StoredPart, options: ReadOptions) =>
    length === 0 ? new Uint8Array(0) : sources[file]!.read(offset, length, options);
  const readAll = (options: ReadOptions) => Promise.all(parts.map((part) => read(part, options)));
  // Creating a signal takes longer than reading a small tensor, and a single read has no siblings to abort.
  return parts.length > 1 ? abortSiblingsOnFailure([options.signal], (signal) => readAll({ ...options, signal })) : readAll(options);
}
