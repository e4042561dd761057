/** The part of this package for files that only the module with all formats reads. It is loaded when the first one is opened. */

import type { OpenFile } from "./catalog.js";
import { withExternalFiles } from "./external-files.js";
import { withFurtherFiles } from "./gguf-set.js";
import type { CoreFile } from "./opened-file.js";
import { withOriginal } from "./original.js";
import type { OpenContext } from "./shards.js";

export { isPacked } from "./packed-magics.js";

/**
 * Returns a file with the other files of its model: those with values of its tensors, or further GGUF files. Opens the
 * original in a packed file if that is necessary.
 */
export async function withOtherFiles(context: OpenContext, file: CoreFile, openFile: OpenFile): Promise<CoreFile[]> {
  const { core, catalog, name = "" } = file;
  if (core.call(() => catalog.externalFiles?.().length)) return withExternalFiles(context, file);
  const isPacked = core.call(() => catalog.originalKind?.());
  return withFurtherFiles(context, isPacked ? await withOriginal(context, file, openFile) : file, name, openFile);
}
