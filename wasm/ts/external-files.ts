/** Opens the other files that contain values of an ONNX model's tensors (docs/formats/onnx.md 4). */

import { isAbsent } from "./siblings.js";
import type { CoreFile } from "./opened-file.js";
import type { OpenContext } from "./shards.js";

/** The maximum number of files that are opened concurrently. */
const MAX_CONCURRENT_FILES = 8;

/**
 * Returns a file with the other files that its tensors are in. Tensors whose file does not exist are listed as
 * unreadable.
 */
export async function withExternalFiles(context: OpenContext, file: CoreFile): Promise<CoreFile[]> {
  const { core, catalog } = file;
  const paths = core.call(() => catalog.externalFiles?.() ?? []);
  const opened: (CoreFile | undefined)[] = [];
  try {
    const waiting = paths.entries();
    const worker = async () => {
      for (const [number, path] of waiting) opened[number] = await openExternal(context, file, number, path);
    };
    await Promise.all(Array.from({ length: Math.min(MAX_CONCURRENT_FILES, paths.length) }, worker));
    return [file, ...opened.filter((other) => other !== undefined)];
  } catch (error) {
    for (const other of [file, ...opened]) if (other) core.free(other.catalog);
    throw error;
  }
}

async function openExternal({ openSource, options, resolveSibling }: OpenContext, { core, catalog }: CoreFile, number: number, path: string): Promise<CoreFile | undefined> {
  const refuse = (reason: string) => core.call(() => catalog.refuseExternal(number, reason));
  const input = resolveSibling(path);
  if (input === undefined) return void refuse("it cannot be found from here. Open the model by its URL, or pass a function `siblings` that finds the file");
  try {
    const source = await openSource(input);
    const sizeBytes = await source.size(options);
    return { source, sizeBytes, core, catalog: core.call(() => catalog.external(number, sizeBytes)), head: new Uint8Array(0), supplied: [] };
  } catch (error) {
    if (!isAbsent(error)) throw error;
    return void refuse("the file does not exist. Put it beside the model");
  }
}
