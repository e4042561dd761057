/** Opens one file with the WebAssembly core: reads its index from a source and returns the catalog of its tensors. */

import type { CoreCatalog, CoreInstance, CoreOpening } from "./core.js";
import { ComparedSource, otherVersion } from "./mixed-versions.js";
import { loadFormats } from "./core-loaders.js";
import type { CoreFile, ReadFile, Supplied } from "./opened-file.js";
import { totalBytes, readRanges } from "./byte-ranges.js";
import type { ProgressMeter } from "./progress.js";
import type { ReadOptions, Source } from "./source/source.js";
import type { StoredPart } from "./tensor.js";

/** The bytes that were read from a file before the core was chosen to open it. */
export interface KnownBytes {
  compared: ComparedSource;
  supplied: readonly Supplied[];
}

/** The function that opens one file. */
export type OpenFile = typeof openFile;

/** Opens one file: reads the ranges that the core requests until it can list every tensor, unless they are `known`. */
export async function openFile(given: Source, sizeBytes: number, head: Uint8Array, name: string, options: ReadOptions, meter: ProgressMeter, known?: KnownBytes): Promise<CoreFile> {
  const core = await loadFormats();
  const supplied: Supplied[] = [];
  const opening = begin(core, { sizeBytes, head, name });
  const source = known?.compared ?? new ComparedSource(given);
  // If bytes of two versions were mixed, the core may report any error, so the change is reported instead.
  const call = <T>(work: () => T): T => {
    try {
      return core.call(work);
    } catch (error) {
      throw otherVersion([source]) ?? error;
    }
  };
  let finished = false;
  try {
    // Every round supplies all the requested ranges, so the core makes progress and the loop ends.
    for (;;) {
      const ranges = pairs(call(() => opening.needs()));
      if (ranges.length === 0) {
        finished = true;
        const catalog = call(() => opening.finish());
        const isCovered = core.call(() => catalog.isCovered());
        if (!isCovered && source.change) {
          core.free(catalog);
          throw source.change;
        }
        return { source: isCovered ? source : given, sizeBytes, core, catalog, head, name, supplied };
      }
      const isKnown = (range: StoredPart) => known?.supplied.find(({ offset, bytes }) => offset === range.offset && bytes.byteLength === range.length);
      const missing = ranges.filter((range) => !isKnown(range));
      meter.expectMore(totalBytes(missing));
      const parts = await readRanges([source], missing, options);
      for (const range of ranges) {
        const { offset } = range;
        const bytes = isKnown(range)?.bytes ?? parts[missing.indexOf(range)]!;
        call(() => opening.supply(offset, bytes));
        supplied.push({ offset, bytes });
      }
    }
  } finally {
    if (!finished) core.free(opening);
  }
}

/** Builds the catalog of a file again, in another `core`, from the bytes that have been read so far. */
export function catalogIn(core: CoreInstance, file: ReadFile): CoreCatalog {
  const opening = begin(core, file);
  for (const { offset, bytes } of file.supplied) core.call(() => opening.supply(offset, bytes));
  return core.call(() => opening.finish());
}

/** Starts to open a file. */
function begin(core: CoreInstance, { original, sizeBytes, head, name = "" }: Pick<ReadFile, "original" | "sizeBytes" | "head" | "name">): CoreOpening {
  return core.call(({ Opening }) => Opening.named(name, original?.size() ?? sizeBytes, head));
}

/** Parses the ranges of a single file: `[offset, length, …]`. */
function pairs(needs: Float64Array): StoredPart[] {
  return Array.from({ length: needs.length / 2 }, (_, i) => ({ file: 0, offset: needs[2 * i]!, length: needs[2 * i + 1]! }));
}
