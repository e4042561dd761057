/** Creates the sources that inputs are read from. */

import { InvalidInputError } from "./errors.js";
import type { LocalInput, ModelInput } from "./model-input.js";
import { platform } from "./platform.js";
import { BytesSource } from "./source/bytes.js";
import { localSource } from "./source/local.js";
import type { HttpOptions } from "./source/http/options.js";
import { remoteSource } from "./source/remote.js";
import type { Source } from "./source/source.js";
import type { Traffic } from "./source/traffic.js";
import { withCoalescing } from "./source/merging/with-coalescing.js";
import type { CoalesceOptions } from "./source/merging/with-coalescing.js";
import { withStats } from "./source/with-stats.js";
import { withValidation } from "./source/with-validation.js";

/** The options that affect how a source reads. */
export type SourceOptions = HttpOptions & { coalesce?: CoalesceOptions | false };

/** Returns whether an input is a path or an address. */
export const isPlace = (input: ModelInput): input is string | URL => typeof input === "string" || input instanceof URL;

/** Returns whether an input is read by HTTP requests. */
export function isRemote(input: ModelInput): boolean {
  return isPlace(input) && platform.resolve(input) instanceof URL;
}

/** Returns the name, path or address of an input, which determines some formats; empty if it has none. */
export function nameOf(input: ModelInput): string {
  return (input as Source).name ?? (isPlace(input) ? `${input}`.replace(/[?#].*/, "") : "");
}

/**
 * Returns the source of an input, which reads the version `pinned` of an address if it is given. Every request is counted
 * in `traffic`. Throws an `InvalidInputError` for a value that is not an input.
 */
export function sourceOf(input: ModelInput, options: SourceOptions, traffic: Traffic, pinned?: Source["pinned"]): Source {
  const { coalesce } = options;
  const place = isPlace(input) ? platform.resolve(input) : input;
  if (place instanceof URL) return withValidation(remoteSource(place, options, coalesce, traffic, pinned));
  const source = localSource(place as LocalInput);
  if (!source) throw new InvalidInputError("`open` takes a URL, a File or Blob, bytes, or an object with size() and read(), or byteLength and slice().");
  const counted = withValidation(withStats(source, traffic));
  return coalesce === false || source instanceof BytesSource ? counted : withCoalescing(counted, coalesce);
}
