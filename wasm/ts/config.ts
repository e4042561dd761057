/** Reads `config.json`, which describes how the weights of a model are stored. */

import { isAbsent } from "./shard-source.js";
import { LimitError } from "./errors.js";
import { isPlain } from "./opened-file.js";
import type { OpenedFile } from "./opened-file.js";
import type { OpenContext } from "./shards.js";
import type { ModelInput } from "./model-input.js";

/**
 * The longest accepted `config.json`, in bytes. A usual one has a few kilobytes, and one that lists every module by
 * name a few hundred.
 */
const MAX_CONFIG_BYTES = 100_000_000;

/**
 * Returns the text of `config.json`; `undefined` if the model does not need it, or if there is no such file. A file that the
 * caller has `given` must exist. The plain ones of `files` need it, if there are any.
 */
export async function readConfig(context: OpenContext, files: readonly OpenedFile[], given: ModelInput | undefined): Promise<Uint8Array | undefined> {
  const wantsConfig = (file: OpenedFile) => (isPlain(file) || file.core.call(() => file.catalog.wantsConfig()));
  if (!files.some(wantsConfig)) return undefined;
  const input = given ?? context.resolveSibling("config.json");
  if (input === undefined) return undefined;
  const { openSource, options, meter } = context;
  try {
    const source = await openSource(input);
    const sizeBytes = await source.size(options);
    if (sizeBytes > MAX_CONFIG_BYTES) throw new LimitError(`The model's config.json has ${sizeBytes} bytes, more than any model needs.`);
    meter.expectMore(sizeBytes);
    return sizeBytes === 0 ? new Uint8Array(0) : await source.read(0, sizeBytes, options);
  } catch (error) {
    if (given === undefined && isAbsent(error)) return undefined;
    throw error;
  }
}
