/**
 * Builds a model in the WebAssembly core from its opened files. Weights stored in several parts need `config.json`, and
 * sometimes a few small tensors.
 */

import { otherVersion } from "./mixed-versions.js";
import { totalBytes, readRanges, parseRanges } from "./byte-ranges.js";
import { catalogIn } from "./catalog.js";
import type { CoreInstance, CoreModel } from "./core.js";
import { loadFormats } from "./core-loaders.js";
import { isPlain } from "./opened-file.js";
import type { CoreFile, OpenedFile } from "./opened-file.js";
import type { ProgressMeter } from "./progress.js";
import type { ReadOptions } from "./source/source.js";

/**
 * Builds the model and returns it with the core instance that owns it. `config` is the text of `config.json` if the
 * model needs it. With `full`, reads compare digests of the decoded tensors. Consumes the catalogs.
 */
export async function assemble(
  files: readonly OpenedFile[],
  shards: Uint8Array | undefined,
  config: Uint8Array | undefined,
  full: boolean,
  options: ReadOptions,
  meter: ProgressMeter,
): Promise<[CoreInstance, CoreModel]> {
  // The models of entries are no parts of the model.
  const closeOriginals = () => files.forEach(({ original, views }) => (original ?? views)?.close());
  try {
    return await build(files, shards, config, full, options, meter, closeOriginals);
  } catch (error) {
    closeOriginals();
    throw error;
  }
}

async function build(
  files: readonly OpenedFile[],
  shards: Uint8Array | undefined,
  config: Uint8Array | undefined,
  full: boolean,
  options: ReadOptions,
  meter: ProgressMeter,
  closeOriginals: () => void,
): Promise<[CoreInstance, CoreModel]> {
  // Only the core with all formats interprets `config.json` and compares digests, and all files of a model must be in
  // the same core.
  const packed = files.filter((file): file is CoreFile => !isPlain(file));
  const cores = new Set(packed.map((file) => file.core));
  const needsFormats = config !== undefined || cores.size !== 1 || packed.some((file) => file.core.call(() => file.catalog.isVerifyLeftOut(full)));
  const core = needsFormats ? await loadFormats() : packed[0]!.core;
  const catalogs = files.map((file) => {
    if (isPlain(file)) return catalogIn(core, file);
    if (file.core === core) return file.catalog;
    file.core.free(file.catalog);
    return catalogIn(core, file);
  });
  const index = shards && core.call(({ ShardIndex }) => new ShardIndex(shards));
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
