/** Conversion of what the WebAssembly core throws to the classes of errors.ts. */

import { FormatError, InternalError, InvalidInputError, LimitError, UnsupportedError, WrongBaseError, ZstnError } from "./errors.js";
import type { ErrorLocation } from "./errors.js";

/** A refusal of bytes: the kind of error, what is wrong, and where. */
export interface Rejection extends ErrorLocation {
  kind: string;
  message: string;
}

/** Parses what the core throws: a line each for kind, rule, offset and the length of the tensor's name, then name and message. */
function parseRejection(text: string): Rejection {
  const [, kind, rule, offset, units, rest] = /^(.*)\n(.*)\n(.*)\n(.*)\n([^]*)$/.exec(text) as unknown as [string, string, string, string, string, string];
  const named = Number(units);
  return {
    kind,
    rule: rule || undefined,
    offset: offset === "" ? undefined : Number(offset),
    tensor: units === "" ? undefined : rest.slice(0, named),
    message: rest.slice(named),
  };
}

/** Converts what the core threw to a `ZstnError`. */
export function toZstnError(thrown: unknown): ZstnError {
  if (thrown instanceof ZstnError) return thrown;
  return typeof thrown === "string" ? fromRejection(parseRejection(thrown)) : fromTrap(thrown);
}

/** Converts a refusal to an error of its class. */
export function fromRejection(rejection: Rejection): ZstnError {
  const { kind } = rejection;
  const message = sentence(rejection.message);
  const location: ErrorLocation = { rule: rejection.rule, offset: rejection.offset, tensor: rejection.tensor };
  switch (kind) {
    case "malformed":
      return new FormatError(message, location);
    case "unsupported":
      return new UnsupportedError(message, location);
    case "limit":
      return new LimitError(message, location);
    case "wrong_base":
      return new WrongBaseError(message, location);
    default:
      // "not_found" cannot occur here: names are looked up in model.ts.
      return new InvalidInputError(message);
  }
}

/** Makes a sentence of a message of the core, which is lower case and has no full stop. */
function sentence(message: string): string {
  const text = message.charAt(0).toUpperCase() + message.slice(1);
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

/** Converts a trap. The core rejects bad input without one, so this is memory that could not grow, or a bug. */
function fromTrap(thrown: unknown): ZstnError {
  const cause = thrown instanceof Error ? thrown.message : String(thrown);
  return new InternalError(
    `The decoder stopped unexpectedly (${cause}). There may not be enough memory. Open models again.`,
    { cause: thrown },
  );
}
