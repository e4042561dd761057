/** From a source to what its file holds. */

import type { Core, CoreCatalog, CoreOpening } from "./core.js";
import { FormatError } from "./errors.js";
import { mistakenFor } from "./mistaken.js";
import { partsBytes, readParts } from "./parts.js";
import type { ProgressMeter } from "./progress.js";
import { guarded } from "./rejection.js";
import type { ReadOptions, Source } from "./source/source.js";
import type { StoredPart } from "./tensor.js";

/** A file of a model, opened. */
export interface OpenedFile {
  source: Source;
  sizeBytes: number;
  /** Where its catalog was made; another core cannot use it. */
  core: Core;
  catalog: CoreCatalog;
  /** What was read of it, to make the catalog again. */
  head: Uint8Array;
  supplied: Supplied[];
}

interface Supplied {
  offset: number;
  bytes: Uint8Array;
}

/** The first bytes of a file, as many as it takes to recognise it. */
export async function readHead(core: Core, source: Source, sizeBytes: number, options: ReadOptions, meter: ProgressMeter): Promise<Uint8Array> {
  const headBytes = Math.min(sizeBytes, core.Opening.headBytes());
  meter.expectMore(headBytes);
  return headBytes > 0 ? source.read(0, headBytes, options) : new Uint8Array(0);
}

/** Reads what the core asks for until it knows every tensor. */
export async function openFile(core: Core, source: Source, sizeBytes: number, head: Uint8Array, options: ReadOptions, meter: ProgressMeter): Promise<OpenedFile> {
  const supplied: Supplied[] = [];
  const opening = recognise(core, sizeBytes, head);
  let finished = false;
  try {
    // The core promises that this ends: each round leaves it less to look for.
    for (;;) {
      const ranges = pairs(guarded(() => opening.needs()));
      if (ranges.length === 0) {
        finished = true;
        return { source, sizeBytes, core, catalog: guarded(() => opening.finish()), head, supplied };
      }
      meter.expectMore(partsBytes(ranges));
      const parts = await readParts([source], ranges, options);
      for (const [i, bytes] of parts.entries()) {
        const { offset } = ranges[i]!;
        guarded(() => opening.supply(offset, bytes));
        supplied.push({ offset, bytes });
      }
    }
  } finally {
    if (!finished) opening.free();
  }
}

/** The catalog of a file for use in `core`, from the bytes that are there. The file's own is used up. */
export function catalogIn(core: Core, file: OpenedFile): CoreCatalog {
  if (file.core === core) return file.catalog;
  file.catalog.free();
  const opening = recognise(core, file.sizeBytes, file.head);
  for (const { offset, bytes } of file.supplied) guarded(() => opening.supply(offset, bytes));
  return guarded(() => opening.finish());
}

function recognise(core: Core, sizeBytes: number, head: Uint8Array): CoreOpening {
  try {
    return guarded(() => new core.Opening(sizeBytes, head));
  } catch (error) {
    const mistake = error instanceof FormatError ? mistakenFor(head) : undefined;
    throw mistake ? new FormatError(mistake, {}, { cause: error }) : error;
  }
}

/** Ranges of the one file, as parts of a model are told. */
function pairs(needs: Float64Array): StoredPart[] {
  return Array.from({ length: needs.length / 2 }, (_, i) => ({ file: 0, offset: needs[2 * i]!, length: needs[2 * i + 1]! }));
}
