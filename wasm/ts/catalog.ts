/** Opens one file with the WebAssembly core: reads its index from a source and returns the catalog of its tensors. */

import type { CoreCatalog, CoreInstance, CoreOpening } from "./core.js";
import { ComparedSource, otherVersion } from "./mixed-versions.js";
import { loadCore, loadFormats } from "./core-loaders.js";
import type { ModelInput } from "./model-input.js";
import type { CoreFile, ReadFile, Supplied } from "./opened-file.js";
import { totalBytes, readRanges } from "./byte-ranges.js";
import { platform } from "./platform.js";
import type { ProgressMeter } from "./progress.js";
import type { OpenContext } from "./shards.js";
import type { ReadOptions, Source } from "./source/source.js";
import type { StoredPart } from "./tensor.js";

/**
 * Returns whether the smaller core reads a packed file with this head: ZSTN without extension frames, packed from
 * safetensors.
 */
const isForReader = (head: Uint8Array): boolean => /^ZSTN(?!\x04)/.test(String.fromCharCode(...head.subarray(0, 5))) && !(head[5]! & 8);

const loadOtherFormats = async () => platform.otherFormats ?? import("./other-formats.js");

/** Loads the magic numbers, and calls `isPacked` of packed-magics.ts. */
export const isPacked = async (head: Uint8Array, name: string): Promise<boolean | undefined> => (await loadOtherFormats()).isPacked(head, name);

/** Calls `sourceOfShard` of shard-source.ts, which is loaded on demand. */
export const sourceOfShard = async (context: OpenContext, name: string, input: ModelInput | undefined): Promise<Source> => (await loadOtherFormats()).sourceOfShard(context, name, input);

/** Opens a file, and the other files of its model that it names, which follow it in the result. */
export async function openCoreFiles(context: OpenContext, source: Source, sizeBytes: number, head: Uint8Array, name: string): Promise<CoreFile[]> {
  const given = isForReader(head) ? source : (await loadOtherFormats()).withFirstFrame(source, sizeBytes, head, context.options.signal);
  const file = await openFile(given, sizeBytes, head, name, context.options, context.meter);
  // Only the core with all formats reads files that name others.
  return file.catalog.externalFiles ? (await loadOtherFormats()).withOtherFiles(context, file, openFile) : [file];
}

/** The function that opens one file. */
export type OpenFile = typeof openFile;

/** Opens one file: reads the ranges that the core requests until it can list every tensor. */
export async function openFile(given: Source, sizeBytes: number, head: Uint8Array, name: string, options: ReadOptions, meter: ProgressMeter): Promise<CoreFile> {
  const core = await (isForReader(head) ? loadCore() : loadFormats());
  const supplied: Supplied[] = [];
  const opening = begin(core, { sizeBytes, head, name });
  const source = new ComparedSource(given);
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
      meter.expectMore(totalBytes(ranges));
      const parts = await readRanges([source], ranges, options);
      for (const [i, bytes] of parts.entries()) {
        const { offset } = ranges[i]!;
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

/** Starts to open a file. Only the core with all formats recognises files by their names. */
function begin(core: CoreInstance, { original, sizeBytes, head, name = "" }: Pick<ReadFile, "original" | "sizeBytes" | "head" | "name">): CoreOpening {
  return core.call(({ Opening }) => Opening.named?.(name, original?.size() ?? sizeBytes, head) ?? new Opening(sizeBytes, head));
}

/** Parses the ranges of a single file: `[offset, length, …]`. */
function pairs(needs: Float64Array): StoredPart[] {
  return Array.from({ length: needs.length / 2 }, (_, i) => ({ file: 0, offset: needs[2 * i]!, length: needs[2 * i + 1]! }));
}
