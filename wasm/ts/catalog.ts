/** Opening one file: from a source to the catalog of its contents. */

import type { CoreCatalog, CoreInstance, CoreOpening } from "./core.js";
import { FormatError } from "./errors.js";
import { totalBytes, readRanges } from "./byte-ranges.js";
import type { ProgressMeter } from "./progress.js";
import type { ReadOptions, Source } from "./source/source.js";
import type { StoredPart } from "./tensor.js";

/** An opened file of a model. */
export interface OpenedFile {
  source: Source;
  sizeBytes: number;
  /** The core that made the catalog. No other core can use it. */
  core: CoreInstance;
  catalog: CoreCatalog;
  /** The bytes read so far, from which another core can make the catalog again. */
  head: Uint8Array;
  supplied: Supplied[];
}

interface Supplied {
  offset: number;
  bytes: Uint8Array;
}

/** Reads as many of the first bytes of a file as it takes to recognise its format. */
export async function readHead(core: CoreInstance, source: Source, sizeBytes: number, options: ReadOptions, meter: ProgressMeter): Promise<Uint8Array> {
  const headBytes = Math.min(sizeBytes, core.call(({ Opening }) => Opening.headBytes()));
  meter.expectMore(headBytes);
  return headBytes > 0 ? source.read(0, headBytes, options) : new Uint8Array(0);
}

/** Reads what the core asks for until it knows every tensor. */
export async function openFile(core: CoreInstance, source: Source, sizeBytes: number, head: Uint8Array, options: ReadOptions, meter: ProgressMeter): Promise<OpenedFile> {
  const supplied: Supplied[] = [];
  const opening = await recognise(core, sizeBytes, head);
  let finished = false;
  try {
    // This ends: in each round the core needs less.
    for (;;) {
      const ranges = pairs(core.call(() => opening.needs()));
      if (ranges.length === 0) {
        finished = true;
        return { source, sizeBytes, core, catalog: core.call(() => opening.finish()), head, supplied };
      }
      meter.expectMore(totalBytes(ranges));
      const parts = await readRanges([source], ranges, options);
      for (const [i, bytes] of parts.entries()) {
        const { offset } = ranges[i]!;
        core.call(() => opening.supply(offset, bytes));
        supplied.push({ offset, bytes });
      }
    }
  } finally {
    if (!finished) core.free(opening);
  }
}

/** Returns the catalog of a file for use in `core`, made from the bytes read so far. Consumes the file's own catalog. */
export function catalogIn(core: CoreInstance, file: OpenedFile): CoreCatalog {
  if (file.core === core) return file.catalog;
  file.core.free(file.catalog);
  const opening = core.call(({ Opening }) => new Opening(file.sizeBytes, file.head));
  for (const { offset, bytes } of file.supplied) core.call(() => opening.supply(offset, bytes));
  return core.call(() => opening.finish());
}

async function recognise(core: CoreInstance, sizeBytes: number, head: Uint8Array): Promise<CoreOpening> {
  try {
    return core.call(({ Opening }) => new Opening(sizeBytes, head));
  } catch (error) {
    const mistake = error instanceof FormatError ? await mistakeIn(head) : undefined;
    throw mistake ? new FormatError(mistake, {}, { cause: error }) : error;
  }
}

/** Says what `head` begins instead of a model. The sentences are loaded when they are needed. */
async function mistakeIn(head: Uint8Array): Promise<string | undefined> {
  try {
    return (await import("./not-a-model.js")).describeNonModel(head);
  } catch {
    return undefined; // The error that led here says enough.
  }
}

/** Parses ranges of a single file, `[offset, length, …]`. */
function pairs(needs: Float64Array): StoredPart[] {
  return Array.from({ length: needs.length / 2 }, (_, i) => ({ file: 0, offset: needs[2 * i]!, length: needs[2 * i + 1]! }));
}
