/**
 * Opens packed files: those packed from safetensors without WebAssembly, all others with the core that reads all formats,
 * whose code is loaded on demand.
 */

import type { ModelInput } from "./model-input.js";
import { ComparedSource } from "./mixed-versions.js";
import type { OpenedFile, Supplied } from "./opened-file.js";
import { platform } from "./platform.js";
import type { OpenContext } from "./shards.js";
import type { Source } from "./source/source.js";
import { openPackedFile } from "./zstn/packed-file.js";

/** Returns whether TypeScript lists a packed file with this head: ZSTN without extension frames, packed from safetensors. */
const isListed = (head: Uint8Array): boolean => /^ZSTN\x03/.test(String.fromCharCode(...head.subarray(0, 5))) && !(head[5]! & 8);

type OtherFormats = typeof import("./other-formats.js");

const loadOtherFormats = async (): Promise<OtherFormats> => platform.otherFormats ?? import("./other-formats.js");

/** Loads the magic numbers, and calls `isPacked` of packed-magics.ts. */
export const isPacked = async (head: Uint8Array, name: string): Promise<boolean | undefined> => (await loadOtherFormats()).isPacked(head, name);

/** Calls `sourceOfShard` of shard-source.ts. */
export const sourceOfShard = async (context: OpenContext, name: string, input: ModelInput | undefined): Promise<Source> => (await loadOtherFormats()).sourceOfShard(context, name, input);

/** Calls `readConfig` of config.ts. */
export const readConfig: OtherFormats["readConfig"] = async (...of) => (await loadOtherFormats()).readConfig(...of);

/** Calls `assemble` of build-model.ts. */
export const assemble: OtherFormats["assemble"] = async (...of) => (await loadOtherFormats()).assemble(...of);

/** Calls `attached` of attach.ts. */
export const attached: OtherFormats["attached"] = async (...of) => (await loadOtherFormats()).attached(...of);

/** Opens a file, and the other files of its model that it names, which follow it in the result. */
export async function openCoreFiles(context: OpenContext, source: Source, sizeBytes: number, head: Uint8Array, name: string): Promise<OpenedFile[]> {
  let known: Parameters<OtherFormats["openCoreFiles"]>[5];
  // Only the core compares digests.
  if (isListed(head) && !context.full) {
    const supplied: Supplied[] = [];
    const compared = new ComparedSource(source);
    const file = await openPackedFile(compared, source, sizeBytes, head, name, context.options, context.meter, supplied);
    if (file) return [file];
    known = { compared, supplied };
  }
  return (await loadOtherFormats()).openCoreFiles(context, source, sizeBytes, head, name, known);
}
