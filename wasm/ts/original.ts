/**
 * Opens the file that a packed file restores, if that is no safetensors file, inside the packed file
 * (docs/formats/zstn-virtual-header.md 6).
 */

import type { OpenFile } from "./catalog.js";
import type { CoreCatalog } from "./core.js";
import type { ErrorCode } from "./errors.js";
import { HEAD_BYTES } from "./limits.js";
import type { CoreFile } from "./opened-file.js";
import { RestoredFile } from "./restored-file.js";
import type { OpenContext } from "./shards.js";
import type { ReadOptions, Source } from "./source/source.js";

/**
 * Returns the packed file with the metadata of its original if it lists all tensors, and otherwise the original. Returns
 * the packed file as it is if the original has no metadata that could be listed, or is refused: then the tensors that it
 * does not list are unreadable. Rejects if the packed file is damaged. Consumes the catalog of a file that is not returned.
 */
export async function withOriginal(context: OpenContext, packed: CoreFile, openFile: OpenFile): Promise<CoreFile> {
  const { core, catalog } = packed;
  const kind = core.call(() => catalog.originalKind());
  const isComplete = core.call(() => catalog.isOriginalComplete());
  // NumPy arrays have no metadata.
  const hasMetadata = kind !== undefined && kind !== "bytes" && !(isComplete && /^np[yz]$/.test(kind));
  const hasViews = core.call(() => catalog.hasPartsOfEntries());
  if (!hasMetadata && !hasViews) return packed;
  let restored: RestoredFile | undefined;
  let unused: CoreCatalog | undefined;
  try {
    restored = new RestoredFile(packed, isComplete, context);
    const head = hasMetadata ? await readOriginalHead(restored, restored.size(), context.options) : undefined;
    const original = head && (await openFile(restored, restored.size(), head, `original.${kind}`, context.options, context.meter));
    if (!original) return withViews(packed, restored, hasViews);
    if (isComplete) {
      core.call(() => catalog.takeMetadata(original.catalog));
      return withViews(packed, restored, hasViews);
    }
    unused = original.catalog;
    core.free(catalog);
    closeWith(unused, restored);
    return { ...original, sizeBytes: packed.sizeBytes, original: restored };
  } catch (error) {
    core.free(unused);
    // An original that cannot be parsed leaves the tensors of the packed file. Damage of the packed file is reported.
    if (!restored?.failure && isRefusal(error)) return restored ? withViews(packed, restored, hasViews) : packed;
    core.free(catalog);
    await restored?.close();
    throw restored?.failure ?? error;
  }
}

/** Returns the packed file, whose tensors that are parts of entries are read through `restored`, if it has such tensors. */
function withViews(packed: CoreFile, restored: RestoredFile, hasViews: boolean): CoreFile {
  if (!hasViews) {
    restored.free();
    return packed;
  }
  closeWith(packed.catalog, restored);
  return { ...packed, views: restored };
}

/** Closes `restored` when the catalog is freed, which happens if opening another file of the model fails. */
export function closeWith(catalog: CoreCatalog, restored: RestoredFile): void {
  const free = catalog.free.bind(catalog);
  catalog.free = () => {
    free();
    restored.close();
  };
}

/** Returns the first bytes of an original; `undefined` if it is a packed file itself, which is not read. */
export async function readOriginalHead(restored: Source, sizeBytes: number, options: ReadOptions): Promise<Uint8Array | undefined> {
  const headBytes = Math.min(sizeBytes, HEAD_BYTES);
  const head = headBytes > 0 ? await restored.read(0, headBytes, options) : new Uint8Array(0);
  return /^Z(STN|4DM)/.test(String.fromCharCode(...head.subarray(0, 4))) ? undefined : head;
}

/** Returns whether an error is a statement about the file. */
export const isRefusal = (error: unknown): boolean => ["malformed", "unsupported", "limit"].includes((error as { code?: ErrorCode } | undefined)?.code ?? "");
