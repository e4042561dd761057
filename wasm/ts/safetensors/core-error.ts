/** Creates the errors for files that are rejected, identical to the errors of the Rust core. */

import { fromRejection } from "../core-errors.js";
import type { ErrorLocation, ZstnError } from "../errors.js";

/** Returns the error for bytes that break a rule of their format. */
export function malformed(rule: string, detail: string, location: Omit<ErrorLocation, "rule"> = {}): ZstnError {
  return refusal("malformed", detail, { rule, ...location });
}

/** Returns the error with the code `kind`. Its message is `detail` together with the location. */
export function refusal(kind: string, detail: string, { rule, offset, tensor }: ErrorLocation = {}): ZstnError {
  const message = `${tensor === undefined ? "" : `tensor \`${tensor}\`: `}${detail}${offset === undefined ? "" : ` (at byte ${offset})`}`;
  return fromRejection({ kind, rule, offset, tensor, message });
}

/** Returns the error for a tensor with a size or an offset above 2^53. */
export function tooLarge(tensor: string): ZstnError {
  return refusal("limit", "a size is too large for JavaScript numbers", { tensor });
}
