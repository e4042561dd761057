/** From opened files to a model: weights in parts need `config.json`, and sometimes a few small tensors. */

import type { OpenedFile } from "./catalog.js";
import type { Core, CoreModel, CoreShardIndex } from "./core.js";
import type { ProgressMeter } from "./progress.js";
import { guarded } from "./rejection.js";
import { sideBySide } from "./side-by-side.js";
import type { ReadOptions } from "./source/source.js";

/** Puts the files together; `config` is the text of `config.json` if that is wanted. Uses up shards and catalogs. */
export async function assemble(
  core: Core,
  files: OpenedFile[],
  shards: CoreShardIndex | undefined,
  config: Uint8Array | undefined,
  options: ReadOptions,
  meter: ProgressMeter,
): Promise<CoreModel> {
  const assembly = guarded(() => new core.Assembly(files.map(({ catalog }) => catalog), shards, config));
  let finished = false;
  try {
    const reads = triples(guarded(() => assembly.needs()));
    meter.expectMore(reads.reduce((sum, { length }) => sum + length, 0));
    const parts = await sideBySide(options.signal, (signal) =>
      Promise.all(reads.map(({ file, offset, length }) => files[file]!.source.read(offset, length, { ...options, signal }))),
    );
    for (const [i, { file, offset }] of reads.entries()) guarded(() => assembly.supply(file, offset, parts[i]!));
    finished = true;
    return guarded(() => assembly.finish());
  } finally {
    if (!finished) assembly.free();
  }
}

function triples(needs: Float64Array) {
  return Array.from({ length: needs.length / 3 }, (_, i) => ({ file: needs[3 * i]!, offset: needs[3 * i + 1]!, length: needs[3 * i + 2]! }));
}
