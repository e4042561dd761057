/** Finds the files of a model in several files, some of which may be packed (docs/formats/sharded.md 2). */

import { InvalidInputError, ReadError, hasCode } from "./errors.js";
import type { HttpError } from "./errors.js";
import type { ModelInput } from "./model-input.js";
import { isOfOtherFormat } from "./packed-names.js";
import type { OpenContext } from "./shards.js";
import type { Source } from "./source/source.js";

/**
 * Returns the source of `input`, the file called `name`. If there is no such file, returns the source of the packed file
 * that restores it, in case it is of a format other than safetensors: `x.bin.zstn` for `x.bin`.
 */
export async function sourceOfShard({ options, openSource, resolveSibling }: OpenContext, name: string, input: ModelInput | undefined): Promise<Source> {
  const open = async (given: ModelInput) => {
    const source = await openSource(given, given === input ? name : undefined);
    await source.size(options);
    return source;
  };
  const packedName = `${name}.zstn`;
  const packed = () => (isOfOtherFormat(packedName) ? resolveSibling(packedName) : undefined);
  const other = input === undefined ? packed() : undefined;
  const found = input ?? other;
  if (found === undefined) {
    throw new InvalidInputError("This file of the model cannot be found from here. Open the model by its URL, or pass a function `siblings` that finds its files.");
  }
  try {
    return await open(found);
  } catch (error) {
    const instead = found === input && isAbsent(error) ? packed() : undefined;
    if (instead === undefined) throw error;
    return open(instead).catch((second: unknown) => {
      throw isAbsent(second) ? error : second;
    });
  }
}

/** Returns whether an error means that a file does not exist. */
export function isAbsent(error: unknown): boolean {
  if (hasCode<HttpError>(error, "http")) return error.status === 404 || error.status === 410;
  return error instanceof ReadError && (error.cause as { code?: unknown } | undefined)?.code === "ENOENT";
}
