/** Opens the other files that contain values of an ONNX model's tensors (docs/formats/onnx.md 4). */

import type { OpenFile } from "./catalog.js";
import { hasCode } from "./errors.js";
import type { HttpError } from "./errors.js";
import { HEAD_BYTES } from "./limits.js";
import type { ModelInput } from "./model-input.js";
import { isAbsent } from "./shard-source.js";
import type { CoreFile } from "./opened-file.js";
import { closeWith, isRefusal } from "./original.js";
import { CACHE_BYTES, RestoredFile } from "./restored-file.js";
import type { OpenContext } from "./shards.js";

const UNKNOWN = "it cannot be found from here. Open the model by its URL, or pass a function `siblings` that finds the file";
const ABSENT = "the file does not exist. Put it beside the model";
const OWN = "this is the file of the model itself";
const REFUSED = "the packed file in its place is damaged, or restores no file beside a model. Open that file to see why";

/** The maximum number of files that are opened concurrently. */
const MAX_CONCURRENT_FILES = 8;

/** A file that a model names: its number and its path. */
type Named = [number: number, path: string];

/** How the files of a model are opened. */
interface Opening {
  context: OpenContext;
  model: CoreFile;
  /** The name of the model's file, without the ending of a packed one. */
  own: string;
  openFile: OpenFile;
  /** The size of the cache of each packed file, in bytes. */
  cacheBytes: number;
}

/**
 * Returns a file with the other files that its tensors are in. `name` is the name of the file, or of the packed file in
 * which it is read. A file that was packed is read inside the packed file. Tensors whose file cannot be opened are listed
 * as unreadable.
 */
export async function withExternalFiles(context: OpenContext, model: CoreFile, name: string, openFile: OpenFile): Promise<CoreFile[]> {
  const { core, catalog } = model;
  const paths = core.call(() => catalog.externalFiles());
  const own = decoded(name.slice(name.lastIndexOf("/") + 1)).replace(/\.(zstn|z4dm)$/, "");
  const opening = { context, model, own, openFile, cacheBytes: Math.floor(CACHE_BYTES / paths.length) };
  const opened: (CoreFile | string)[] = [];
  try {
    const waiting = paths.entries();
    const worker = async () => {
      for (const [number, path] of waiting) opened[number] = await openExternal(opening, [number, path]);
    };
    await Promise.all(Array.from({ length: Math.min(MAX_CONCURRENT_FILES, paths.length) }, worker));
    for (const reason of [UNKNOWN, ABSENT, OWN, REFUSED]) {
      const numbers = [...opened.entries()].flatMap(([number, other]) => (other === reason ? [number] : []));
      if (numbers.length > 0) core.call(() => catalog.refuseExternal(Uint32Array.from(numbers), reason));
    }
    return [model, ...opened.filter((other) => typeof other !== "string")];
  } catch (error) {
    for (const other of [model, ...opened]) if (other && typeof other !== "string") core.free(other.catalog);
    throw error;
  }
}

/** Returns the opened file, or the reason why it cannot be opened. */
async function openExternal(opening: Opening, file: Named): Promise<CoreFile | string> {
  const [number, path] = file;
  const { context: { openSource, options, resolveSibling }, model: { core, catalog } } = opening;
  if (opening.own === path) return OWN;
  const input = resolveSibling(path);
  try {
    if (input !== undefined) {
      const source = await openSource(input);
      const sizeBytes = await source.size(options);
      return { source, sizeBytes, core, catalog: core.call(() => catalog.external(number, sizeBytes)), head: new Uint8Array(0), supplied: [] };
    }
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
  // These files have any name, such as `model.onnx_data`.
  const packed = /\.safetensors$/i.test(path) ? undefined : resolveSibling(`${path}.zstn`);
  if (packed === undefined) return input === undefined ? UNKNOWN : ABSENT;
  try {
    return await openPacked(opening, file, packed);
  } catch (error) {
    if (isMissing(error)) return ABSENT;
    if (isRefusal(error)) return REFUSED;
    throw error;
  }
}

/** Opens the packed file that restores a file, which is then read inside it. */
async function openPacked({ context, model: { core, catalog }, openFile, cacheBytes }: Opening, [number, path]: Named, input: ModelInput): Promise<CoreFile | string> {
  const { openSource, options, meter } = context;
  const source = await openSource(input);
  const sizeBytes = await source.size(options);
  const headBytes = Math.min(sizeBytes, HEAD_BYTES);
  meter.expectMore(headBytes);
  const head = headBytes > 0 ? await source.read(0, headBytes, options) : new Uint8Array(0);
  // Neither a delta nor a file that is not packed restores a file by itself.
  if (String.fromCharCode(...head.subarray(0, 4)) !== "ZSTN") return REFUSED;
  const packed = await openFile(source, sizeBytes, head, `${path}.zstn`, options, meter);
  try {
    if (packed.core.call(() => packed.catalog.originalKind()) === undefined) return REFUSED;
    const restored = new RestoredFile(packed, false, context, cacheBytes);
    const values = core.call(() => catalog.external(number, restored.size()));
    closeWith(values, restored);
    return { source: restored, sizeBytes, original: restored, core, catalog: values, head: new Uint8Array(0), supplied: [] };
  } finally {
    packed.core.free(packed.catalog);
  }
}

/** Returns whether a file does not exist, or a server requires a login, as some do for files that do not exist. */
const isMissing = (error: unknown): boolean => isAbsent(error) || (hasCode<HttpError>(error, "http") && (error.status === 401 || error.status === 403));

/** Returns a component of a URL or path without percent-encoding. */
export function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
