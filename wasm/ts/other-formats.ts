/** The part of this package for files that only the module with all formats reads. It is loaded when the first one is opened. */

import { openFile } from "./catalog.js";
import type { KnownBytes } from "./catalog.js";
import { withFirstFrame } from "./first-frame.js";
import type { CoreFile } from "./opened-file.js";
import { withOriginal } from "./original.js";
import { sourceOfShard } from "./shard-source.js";
import type { OpenContext } from "./shards.js";
import type { Source } from "./source/source.js";

export { assemble } from "./build-model.js";
export { readConfig } from "./config.js";
export { attached } from "./delta/attach.js";
export { isPacked } from "./packed-magics.js";
export { sourceOfShard };

/** Matches the name of the first of several GGUF files, which may be packed. */
const FIRST_OF_SET = /-00001-of-\d{5}\.gguf(\.zstn)?$/;

/** Opens a file, and the other files of its model that it names, which follow it in the result. */
export async function openCoreFiles(context: OpenContext, source: Source, sizeBytes: number, head: Uint8Array, name: string, known?: KnownBytes): Promise<CoreFile[]> {
  const given = withFirstFrame(source, sizeBytes, head, context.options.signal);
  return withOtherFiles(context, await openFile(given, sizeBytes, head, name, context.options, context.meter, known));
}

/**
 * Returns a file with the other files of its model: those with values of its tensors, or further GGUF files. Opens the
 * original in a packed file if that is necessary.
 */
async function withOtherFiles(context: OpenContext, file: CoreFile): Promise<CoreFile[]> {
  const { name = "" } = file;
  const isPacked = file.core.call(() => file.catalog.originalKind());
  const opened = isPacked ? await withOriginal(context, file, openFile) : file;
  const { core, catalog } = opened;
  if (core.call(() => catalog.externalFiles().length)) return (await import("./external-files.js")).withExternalFiles(context, opened, name, openFile);
  return FIRST_OF_SET.test(name) ? (await import("./gguf-set.js")).withFurtherFiles(context, opened, name, { openFile, sourceOfShard }) : [opened];
}
