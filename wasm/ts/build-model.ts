/**
 * Builds a model in the WebAssembly core from its opened files. Weights stored in several parts need `config.json`, and
 * sometimes a few small tensors.
 */

import { otherVersion } from "./mixed-versions.js";
import { totalBytes, readRanges, parseRanges } from "./byte-ranges.js";
import { catalogIn } from "./catalog.js";
import { describe } from "./core-description.js";
import { openedModel } from "./core-model.js";
import type { CoreInstance, CoreModel } from "./core.js";
import { loadFormats } from "./core-loaders.js";
import type { Description } from "./description.js";
import { isPlain } from "./opened-file.js";
import type { OpenedFile, ReadShards } from "./opened-file.js";
import type { OpenedModel } from "./opened-model.js";
import type { ProgressMeter } from "./progress.js";
import type { ReadOptions } from "./source/source.js";

/**
 * Builds the model and returns it with its description. `config` is the text of `config.json` if the
 * model needs it. With `full`, reads compare digests of the decoded tensors. Consumes the catalogs.
 */
export async function assemble(
  files: readonly OpenedFile[],
  shards: ReadShards | undefined,
  config: Uint8Array | undefined,
  full: boolean,
  options: ReadOptions,
  meter: ProgressMeter,
): Promise<[OpenedModel, Description]> {
  // The models of entries are no parts of the model.
  const closeOriginals = () => files.forEach(({ original, views }) => (original ?? views)?.close());
  try {
    const [instance, model] = await build(files, shards, config, full, options, meter, closeOriginals);
    return [openedModel(instance, model, files, shards), describe(instance, model)];
  } catch (error) {
    closeOriginals();
    throw error;
  }
}

async function build(
  files: readonly OpenedFile[],
  shards: ReadShards | undefined,
  config: Uint8Array | undefined,
  full: boolean,
  options: ReadOptions,
  meter: ProgressMeter,
  closeOriginals: () => void,
): Promise<[CoreInstance, CoreModel]> {
  // All files of a model must be in the same instance. A file is in an older one if another file has caused a trap.
  const cores = new Set(files.flatMap((file) => (isPlain(file) ? [] : file.core)));
  const core = cores.size === 1 ? [...cores][0]! : await loadFormats();
  const catalogs = files.map((file) => {
    if (isPlain(file)) return catalogIn(core, file);
    if (file.core === core) return file.catalog;
    file.core.free(file.catalog);
    return catalogIn(core, file);
  });
  const index = shards && core.call(({ ShardIndex }) => new ShardIndex(shards.text));
  const assembly = core.call(({ Assembly }) => new Assembly(catalogs, index, config));
  let finished = false;
  try {
    const reads = parseRanges(core.call(() => assembly.needs()));
    meter.expectMore(totalBytes(reads));
    const sources = files.map(({ source }) => source);
    const parts = await readRanges(sources, reads, options);
    for (const [i, { file, offset }] of reads.entries()) core.call(() => assembly.supply(file, offset, parts[i]!));
    finished = true;
    const model = core.call(() => assembly.finish(full));
    const free = model.free.bind(model);
    model.free = () => {
      free();
      closeOriginals();
    };
    // A weight is unreadable if its small tensors have wrong bytes. The cause may be a file that has changed.
    const changed = reads.length > 0 && otherVersion(sources);
    if (changed && core.call(() => model.describe())[4].length > 0) {
      core.free(model);
      throw changed;
    }
    return [core, model];
  } finally {
    if (!finished) core.free(assembly);
  }
}
