/** From a source to what its file holds. */

import type { Core, CoreCatalog, CoreOpening } from "./core.js";
import { FormatError } from "./errors.js";
import { mistakenFor } from "./mistaken.js";
import type { ProgressMeter } from "./progress.js";
import { guarded } from "./rejection.js";
import { sideBySide } from "./side-by-side.js";
import type { ReadOptions, Source } from "./source/source.js";

/** A file of a model, opened. */
export interface OpenedFile {
  source: Source;
  sizeBytes: number;
  catalog: CoreCatalog;
}

/** The first bytes of a file, as many as it takes to recognise it. */
export async function readHead(core: Core, source: Source, sizeBytes: number, options: ReadOptions, meter: ProgressMeter): Promise<Uint8Array> {
  const headBytes = Math.min(sizeBytes, core.Opening.headBytes());
  meter.expectMore(headBytes);
  return headBytes > 0 ? source.read(0, headBytes, options) : new Uint8Array(0);
}

/** Reads what the core asks for until it knows every tensor. */
export async function readCatalog(core: Core, source: Source, sizeBytes: number, head: Uint8Array, options: ReadOptions, meter: ProgressMeter): Promise<CoreCatalog> {
  const opening = recognise(core, sizeBytes, head);
  let finished = false;
  try {
    // The core promises that this ends: each round leaves it less to look for.
    for (;;) {
      const ranges = pairs(guarded(() => opening.needs()));
      if (ranges.length === 0) {
        finished = true;
        return guarded(() => opening.finish());
      }
      meter.expectMore(ranges.reduce((sum, { length }) => sum + length, 0));
      await supply(opening, source, ranges, options);
    }
  } finally {
    if (!finished) opening.free();
  }
}

function recognise(core: Core, sizeBytes: number, head: Uint8Array): CoreOpening {
  try {
    return guarded(() => new core.Opening(sizeBytes, head));
  } catch (error) {
    const mistake = error instanceof FormatError ? mistakenFor(head) : undefined;
    throw mistake ? new FormatError(mistake, {}, { cause: error }) : error;
  }
}

interface Range {
  offset: number;
  length: number;
}

function pairs(needs: Float64Array): Range[] {
  return Array.from({ length: needs.length / 2 }, (_, i) => ({ offset: needs[2 * i]!, length: needs[2 * i + 1]! }));
}

async function supply(opening: CoreOpening, source: Source, ranges: Range[], options: ReadOptions): Promise<void> {
  const parts = await sideBySide(options.signal, (signal) =>
    Promise.all(ranges.map(({ offset, length }) => source.read(offset, length, { ...options, signal }))),
  );
  for (const [i, bytes] of parts.entries()) guarded(() => opening.supply(ranges[i]!.offset, bytes));
}
