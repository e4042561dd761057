/** Restores files of other formats than safetensors. It is loaded when the first such file is unpacked. */

import { openFile } from "./catalog.js";
import { decodingOf } from "./decode/choose-decoder.js";
import { RestoredFile } from "./restored-file.js";
import { ProgressMeter } from "./progress.js";
import type { ReadOptions, Source } from "./source/source.js";
import type { RestoredPieces } from "./unpack.js";

/** Opens the file that a packed file restores. Its chunks are the entries of the packed file, each of which is decoded once. */
export async function openRestored(source: Source, packedSize: number, head: Uint8Array, name: string, options: ReadOptions): Promise<RestoredPieces> {
  // Progress counts the bytes that are restored.
  const unreported = new ProgressMeter(undefined, { stage: "unpack" });
  const packed = await openFile(source, packedSize, head, name, options, unreported);
  const { core, catalog } = packed;
  try {
    const kind = core.call(() => catalog.originalKind()!);
    const file = new RestoredFile(packed, false, { full: true, decoding: async () => decodingOf(undefined) });
    const lengths = file.partLengths().values();
    let offset = 0;
    const next = async () => {
      const { value: length } = lengths.next();
      if (length === undefined) return undefined;
      const piece = await file.read(offset, length, options);
      offset += length;
      return piece;
    };
    return { kind, isOther: true, size: file.size(), next, close: () => file.close() };
  } finally {
    core.free(catalog);
  }
}
