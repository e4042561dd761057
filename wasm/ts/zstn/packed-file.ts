/** Opens a file that was packed from safetensors, without the WebAssembly core. */

import { readRanges, totalBytes } from "../byte-ranges.js";
import { loadReader } from "../core-loaders.js";
import type { ComparedSource } from "../mixed-versions.js";
import type { PackedFile, Supplied } from "../opened-file.js";
import type { ProgressMeter } from "../progress.js";
import type { ReadOptions, Source } from "../source/source.js";
import { FetchedEnds } from "./fetched-ends.js";
import { headerCopy, listTensors, prefixOf } from "./packed-head.js";

/**
 * Opens the file that `compared` and `source` read, whose first bytes are `head`. Resolves to `undefined` for a file that
 * the core has to open: the core explains why it refuses one, and compares digests if a file has no other checksums.
 * Everything that has been read is added to `supplied`.
 */
export async function openPackedFile(compared: ComparedSource, source: Source, sizeBytes: number, head: Uint8Array, name: string, options: ReadOptions, meter: ProgressMeter, supplied: Supplied[]): Promise<PackedFile | undefined> {
  const fetched = unlessDeclined(() => new FetchedEnds(sizeBytes, head));
  if (!fetched) return undefined;
  // Every round supplies all the requested ranges, so that the loop ends.
  for (;;) {
    const ranges = unlessDeclined(() => fetched.needs());
    if (!ranges) return undefined;
    if (ranges.length === 0) break;
    meter.expectMore(totalBytes(ranges));
    // Only the decoder can restore a long header from its copy, which is among the bytes that are being read.
    if (fetched.mayHaveCopy) loadReader().catch(() => {});
    const parts = await readRanges([compared], ranges, options);
    for (const [i, bytes] of parts.entries()) {
      const { offset } = ranges[i]!;
      fetched.supply(offset, bytes);
      supplied.push({ offset, bytes });
    }
  }
  const missing = unlessDeclined(() => ({ copy: headerCopy(fetched) }));
  if (!missing) return undefined;
  const { copy } = missing;
  const reader = copy && (await loadReader());
  const listed = unlessDeclined(() => {
    const prefix = reader ? prefixOf(fetched, reader.call((api) => api.decodeHeader(copy!, fetched.headerBytes))) : fetched.part(0, fetched.prefixBytes)!;
    return listTensors(fetched, prefix);
  });
  if (!listed) return undefined;
  const { section } = listed.packed;
  if (section.has("TENS") && !section.has("FRMS")) return undefined;
  const isCovered = section.has("HEAD") && section.has("FRMS");
  if (!isCovered && compared.change) throw compared.change;
  return { ...listed, source: isCovered ? compared : source, sizeBytes, head, name, supplied, dataBegin: 0 };
}

/** Returns the result of `work`; `undefined` if it throws, because the bytes are not as they should be. */
function unlessDeclined<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}
