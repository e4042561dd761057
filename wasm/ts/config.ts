/** Reading `config.json`, which describes how the weights of a model are stored. */

import { isAbsent } from "./siblings.js";
import type { OpenedFile } from "./catalog.js";
import { LimitError } from "./errors.js";
import type { OpenContext } from "./shards.js";
import type { ModelInput } from "./model-input.js";

/** The longest `config.json`, in bytes. Those on hubs have a few kilobytes; one that lists every module by name, a few hundred. */
const MAX_CONFIG_BYTES = 100_000_000;

/** Returns the text of `config.json`, if the model needs one and there is one. */
export async function readConfig(context: OpenContext, files: readonly OpenedFile[], given: ModelInput | false | undefined): Promise<Uint8Array | undefined> {
  if (given === false || !files.some(({ core, catalog }) => core.call(() => catalog.wantsConfig()))) return undefined;
  const input = given ?? context.resolveSibling("config.json");
  if (input === undefined) return undefined;
  const { openSource, options, meter } = context;
  try {
    const source = openSource(input);
    const sizeBytes = await source.size(options);
    if (sizeBytes > MAX_CONFIG_BYTES) throw new LimitError(`The model's config.json has ${sizeBytes} bytes, more than any model needs.`);
    meter.expectMore(sizeBytes);
    return sizeBytes === 0 ? new Uint8Array(0) : await source.read(0, sizeBytes, options);
  } catch (error) {
    if (given === undefined && isAbsent(error)) return undefined;
    throw error;
  }
}
