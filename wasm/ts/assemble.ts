/** From opened files to a model: weights in parts need `config.json`, and sometimes a few small tensors. */

import { catalogIn } from "./catalog.js";
import type { OpenedFile } from "./catalog.js";
import type { CoreModel } from "./core.js";
import type { Reading } from "./files.js";
import { partsBytes, readParts, storedParts } from "./parts.js";
import { guarded } from "./rejection.js";

/** Puts the files together; `config` is the text of `config.json` if that is wanted. Uses up catalogs. */
export async function assemble(
  { core: plain, loadFormats, options, meter }: Reading,
  files: OpenedFile[],
  shards: Uint8Array | undefined,
  config: Uint8Array | undefined,
): Promise<CoreModel> {
  // A configuration takes the core with all formats, and all files have to be in the same one.
  const all = config !== undefined || files.some(({ core }) => core !== plain);
  const core = all ? await loadFormats() : plain;
  const index = shards && guarded(() => new core.ShardIndex(shards));
  const catalogs = files.map((file) => catalogIn(core, file));
  const assembly = guarded(() => new core.Assembly(catalogs, index, config));
  let finished = false;
  try {
    const reads = storedParts(guarded(() => assembly.needs()));
    meter.expectMore(partsBytes(reads));
    const sources = files.map(({ source }) => source);
    const parts = await readParts(sources, reads, options);
    for (const [i, { file, offset }] of reads.entries()) guarded(() => assembly.supply(file, offset, parts[i]!));
    finished = true;
    return guarded(() => assembly.finish());
  } finally {
    if (!finished) assembly.free();
  }
}
