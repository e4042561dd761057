/** Validates options. */

import { InvalidInputError } from "../errors.js";

/** Returns the value of the option `name`. Throws an `InvalidInputError` unless it is a number of at least `min`. */
export function atLeast(name: string, value: number, min = 0): number {
  if (typeof value === "number" && value >= min) return value;
  throw new InvalidInputError(`The option \`${name}\` must be a number of at least ${min}, not ${String(value)}.`);
}
