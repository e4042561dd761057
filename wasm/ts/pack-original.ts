/**
 * Describes files of other formats than safetensors, so that the module for packing can code them
 * (docs/formats/zstn-virtual-header.md). It is loaded with the module that knows these formats.
 */

import { openFile } from "./catalog.js";
import type { CoreVirtualHeader } from "./core.js";
import { loadFormats } from "./core-loaders.js";
import { InvalidInputError } from "./errors.js";
import { isRefusal } from "./original.js";
import type { PackedOriginal } from "./pack-report.js";
import { ProgressMeter } from "./progress.js";
import { isShardIndex } from "./safetensors/shard-index.js";
import type { Source } from "./source/source.js";

/** A file that is packed with a virtual header. */
export interface DescribedOriginal {
  original: PackedOriginal;
  /** The JSON of the virtual header. */
  header: Uint8Array<ArrayBuffer>;
  /** How the entries of the header are coded, as `CorePacking.describe` takes it. */
  codings: Float64Array;
}

/**
 * Returns whether a file with this name and these first bytes is packed with a virtual header, as in the Rust library.
 * Rejects with an `InvalidInputError` for a file of another format that is called `.safetensors`, and for the index of a
 * model in several files, whose shards contain the tensors.
 */
export async function isOtherFormat(name: string, sizeBytes: number, head: Uint8Array): Promise<boolean> {
  if (isShardIndex(head) && /"weight_map"\s*:\s*\{/.test(new TextDecoder("latin1").decode(head))) {
    throw new InvalidInputError(`${name || "The file"} is the index of a model in several files and contains no tensors. Pack each shard alone, or the whole model with the program \`zstn pack\`.`);
  }
  return (await loadFormats()).call((core) => core.isOtherFormat(name, sizeBytes, head));
}

/**
 * Describes the file that `source` reads. A file that is not recognised, or is refused, is described as bytes. Resolves
 * to `undefined` for safetensors files, packed files and failed downloads.
 */
export async function describeOriginal(source: Source, sizeBytes: number, head: Uint8Array, name: string, signal: AbortSignal | undefined): Promise<DescribedOriginal | undefined> {
  if (!(await isOtherFormat(name, sizeBytes, head))) return undefined;
  try {
    // Only the bytes that are packed count as progress.
    const unreported = new ProgressMeter(undefined, { stage: "pack" });
    const { core, catalog } = await openFile(source, sizeBytes, head, name, signal ? { signal } : {}, unreported);
    try {
      return described(core.call(() => catalog.virtualHeader()));
    } finally {
      core.free(catalog);
    }
  } catch (error) {
    if (!isRefusal(error)) throw error;
    const core = await loadFormats();
    return described(core.call((core) => core.virtualHeaderOfBytes(sizeBytes)), (error as Error).message);
  }
}

function described([kind, header, codings]: CoreVirtualHeader, refusal?: string): DescribedOriginal {
  return { original: { kind, ...(refusal !== undefined && { refusal }) }, header, codings };
}
