/** Building a model from its opened files. Weights in parts need `config.json`, and sometimes a few small tensors. */

import { catalogIn } from "./catalog.js";
import type { OpenedFile } from "./catalog.js";
import type { CoreInstance, CoreModel } from "./core.js";
import type { OpenContext } from "./shards.js";
import { totalBytes, readRanges, parseRanges } from "./byte-ranges.js";

/** Builds the model, and returns it with the instance that it lives in; `config` is the text of `config.json` if the model needs it. Consumes the catalogs. */
export async function assemble(
  { core: plain, loadFormats, options, meter }: OpenContext,
  files: OpenedFile[],
  shards: Uint8Array | undefined,
  config: Uint8Array | undefined,
): Promise<[CoreInstance, CoreModel]> {
  // A configuration needs the core with all formats, and all files must be in the same core.
  const all = config !== undefined || files.some(({ core }) => core !== plain);
  const core = all ? await loadFormats() : plain;
  const index = shards && core.call(({ ShardIndex }) => new ShardIndex(shards));
  const catalogs = files.map((file) => catalogIn(core, file));
  const assembly = core.call(({ Assembly }) => new Assembly(catalogs, index, config));
  let finished = false;
  try {
    const reads = parseRanges(core.call(() => assembly.needs()));
    meter.expectMore(totalBytes(reads));
    const sources = files.map(({ source }) => source);
    const parts = await readRanges(sources, reads, options);
    for (const [i, { file, offset }] of reads.entries()) core.call(() => assembly.supply(file, offset, parts[i]!));
    finished = true;
    return [core, core.call(() => assembly.finish())];
  } finally {
    if (!finished) core.free(assembly);
  }
}
