/** Rejects options that a call does not have, such as misspelt ones, which plain JavaScript would ignore silently. */

import { InvalidInputError } from "./errors.js";

/** An object whose keys are the names of all options in `Options`. */
export type OptionNames<Options> = Readonly<Record<keyof Options, 1>>;

/** The options of every call that reads from web servers. */
export const HTTP_OPTIONS = { headers: 1, token: 1, fetch: 1, retries: 1, idleTimeoutMs: 1, giveUpAfterMs: 1, maxFullDownloadBytes: 1, onFullDownload: 1, cache: 1, endpoint: 1 } as const;

/** Throws an `InvalidInputError` unless `options` is `undefined` or an object with no other keys than `known`. */
export function checkOptions(call: string, options: unknown, known: Readonly<Record<string, 1>>): void {
  const unknown = Object(options) === options ? Object.keys(options as object).find((name) => !Object.hasOwn(known, name)) : options;
  if (unknown !== undefined) throw new InvalidInputError(`${call} has no option \`${unknown as string}\`, only ${Object.keys(known).join(", ")}.`);
}
