/** Opens the other files of a model in several GGUF files (docs/formats/gguf.md 6). */

import { abortSiblingsOnFailure } from "./abort-siblings.js";
import type { OpenFile } from "./catalog.js";
import { ZstnError } from "./errors.js";
import { decoded } from "./external-files.js";
import { HEAD_BYTES } from "./limits.js";
import type { ModelInput } from "./model-input.js";
import type { CoreFile } from "./opened-file.js";
import { withOriginal } from "./original.js";
import { malformed } from "./safetensors/core-error.js";
import type { sourceOfShard } from "./shard-source.js";
import type { OpenContext } from "./shards.js";

/** The maximum number of files that are opened concurrently. */
const MAX_CONCURRENT_FILES = 8;

/** The functions for opening files, which this module does not import, so that bundlers do not divide the code that is loaded at once. */
export interface OpenFunctions {
  openFile: OpenFile;
  sourceOfShard: typeof sourceOfShard;
}

/**
 * Returns a file with the other files of its model, if it is called `path` and is the first of several GGUF files. If
 * none of the others can be found from here, as after dropping one file on a page, it is opened by itself.
 */
export async function withFurtherFiles(context: OpenContext, first: CoreFile, path: string, functions: OpenFunctions): Promise<CoreFile[]> {
  const name = decoded(path.replace(/^.*[\\/]/, ""));
  const { core, catalog } = first;
  const names = core.call(() => catalog.furtherGgufFiles(name));
  const inputs = names.map((name) => context.resolveSibling(name));
  if (names.every((name, i) => inputs[i] === undefined && context.resolveSibling(`${name}.zstn`) === undefined)) return [first];
  const others: CoreFile[] = [];
  try {
    let tensors = core.call(() => catalog.checkGgufPart(name));
    await abortSiblingsOnFailure([context.options.signal], async (signal) => {
      const waiting = names.entries();
      const worker = async () => {
        for (const [number, name] of waiting) {
          const other = await openOther({ ...context, options: { ...context.options, signal } }, name, inputs[number], functions);
          others[number] = other.file;
          tensors += other.tensors;
        }
      };
      await Promise.all(Array.from({ length: Math.min(MAX_CONCURRENT_FILES, names.length) }, worker));
    });
    core.call(() => catalog.checkGgufTotal(tensors));
    return [first, ...others];
  } catch (error) {
    for (const file of [first, ...others]) if (file) file.core.free(file.catalog);
    throw error;
  }
}

/** Opens one of the other files. Returns it with the number of its tensors. */
async function openOther(context: OpenContext, name: string, input: ModelInput | undefined, functions: OpenFunctions): Promise<{ file: CoreFile; tensors: number }> {
  const { options, meter } = context;
  let file: CoreFile | undefined;
  try {
    const source = await functions.sourceOfShard(context, name, input);
    const sizeBytes = await source.size(options);
    const headBytes = Math.min(sizeBytes, HEAD_BYTES);
    meter.expectMore(headBytes);
    const head = headBytes > 0 ? await source.read(0, headBytes, options) : new Uint8Array(0);
    file = await functions.openFile(source, sizeBytes, head, name, options, meter);
    if (file.core.call(() => file!.catalog.originalKind())) {
      const packed = file;
      // If this rejects, it has freed the catalog.
      file = undefined;
      file = await withOriginal(context, packed, functions.openFile);
    }
    const { core, catalog } = file;
    const tensors = core.call(() => catalog.checkGgufPart(name));
    if (tensors === undefined) throw malformed("gguf.split", "the name of the file states that it is one of several GGUF files of a model, and it is a packed safetensors file; get the files of the model again");
    return { file, tensors };
  } catch (error) {
    if (file) file.core.free(file.catalog);
    // The failure of another file aborts this one, and names that file.
    if (error instanceof ZstnError && !options.signal?.aborted) error.message = `In ${name}: ${error.message}`;
    throw error;
  }
}
