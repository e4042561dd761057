/** `config.json`, which says how the weights of a model are stored. */

import { isAbsent } from "./beside.js";
import type { OpenedFile } from "./catalog.js";
import { LimitError } from "./errors.js";
import type { Reading } from "./files.js";
import type { Openable } from "./open.js";

/** Those of hubs have a few kilobytes; one that lists every module by name, some hundred. In bytes. */
const CONFIG_BYTES = 100_000_000;

/** Its text, if it is wanted and there. */
export async function readConfig(reading: Reading, files: readonly OpenedFile[], given: Openable | false | undefined): Promise<Uint8Array | undefined> {
  if (given === false || !files.some(({ catalog }) => catalog.wantsConfig())) return undefined;
  const openable = given ?? reading.beside("config.json");
  if (openable === undefined) return undefined;
  const { openSource, options, meter } = reading;
  try {
    const source = openSource(openable);
    const sizeBytes = await source.size(options);
    if (sizeBytes > CONFIG_BYTES) throw new LimitError(`The model's config.json has ${sizeBytes} bytes, more than any model needs.`);
    meter.expectMore(sizeBytes);
    return sizeBytes === 0 ? new Uint8Array(0) : await source.read(0, sizeBytes, options);
  } catch (error) {
    if (given === undefined && isAbsent(error)) return undefined;
    throw error;
  }
}
