/** Opens the other files that contain values of an ONNX model's tensors (docs/formats/onnx.md 4). */

import { hasCode } from "./errors.js";
import type { HttpError } from "./errors.js";
import { isAbsent } from "./siblings.js";
import type { CoreFile } from "./opened-file.js";
import type { OpenContext } from "./shards.js";

const UNKNOWN = "it cannot be found from here. Open the model by its URL, or pass a function `siblings` that finds the file";
const ABSENT = "the file does not exist. Put it beside the model";
const OWN = "this is the file of the model itself";

/** The maximum number of files that are opened concurrently. */
const MAX_CONCURRENT_FILES = 8;

/**
 * Returns a file with the other files that its tensors are in. Tensors whose file does not exist are listed as
 * unreadable.
 */
export async function withExternalFiles(context: OpenContext, file: CoreFile): Promise<CoreFile[]> {
  const { core, catalog } = file;
  const paths = core.call(() => catalog.externalFiles());
  const opened: (CoreFile | string)[] = [];
  try {
    const waiting = paths.entries();
    const worker = async () => {
      for (const [number, path] of waiting) opened[number] = await openExternal(context, file, number, path);
    };
    await Promise.all(Array.from({ length: Math.min(MAX_CONCURRENT_FILES, paths.length) }, worker));
    for (const reason of [UNKNOWN, ABSENT, OWN]) {
      const numbers = [...opened.entries()].flatMap(([number, other]) => (other === reason ? [number] : []));
      if (numbers.length > 0) core.call(() => catalog.refuseExternal(Uint32Array.from(numbers), reason));
    }
    return [file, ...opened.filter((other) => typeof other !== "string")];
  } catch (error) {
    for (const other of [file, ...opened]) if (other && typeof other !== "string") core.free(other.catalog);
    throw error;
  }
}

/** Returns the opened file, or the reason why it cannot be opened. */
async function openExternal({ openSource, options, resolveSibling }: OpenContext, { core, catalog, name = "" }: CoreFile, number: number, path: string): Promise<CoreFile | string> {
  if (decoded(name.slice(name.lastIndexOf("/") + 1)) === path) return OWN;
  const input = resolveSibling(path);
  if (input === undefined) return UNKNOWN;
  try {
    const source = await openSource(input);
    const sizeBytes = await source.size(options);
    return { source, sizeBytes, core, catalog: core.call(() => catalog.external(number, sizeBytes)), head: new Uint8Array(0), supplied: [] };
  } catch (error) {
    if (!isAbsent(error) && !isRefused(error)) throw error;
    return ABSENT;
  }
}

/** Returns whether a server requires a login, as some do for files that do not exist. */
const isRefused = (error: unknown): boolean => hasCode<HttpError>(error, "http") && (error.status === 401 || error.status === 403);

/** Returns a component of a URL or path without percent-encoding. */
export function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
