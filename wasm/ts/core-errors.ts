/** Converts the errors of the WebAssembly core to the classes of errors.ts. */

import { FormatError, InternalError, InvalidInputError, LimitError, UnsupportedError, WrongBaseError, ZstnError } from "./errors.js";
import type { ErrorLocation } from "./errors.js";

/** A rejected input: the error code of the core, the message, and the location in the input. */
export interface Rejection extends ErrorLocation {
  kind: string;
  message: string;
}

/**
 * Parses the text that the core throws: one line each for the error code, the rule, the offset and the length of the
 * tensor's name, then the name and the message.
 */
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

/** Converts a value that the core has thrown to a `ZstnError`. */
export function toZstnError(thrown: unknown): ZstnError {
  if (thrown instanceof ZstnError) return thrown;
  return typeof thrown === "string" ? fromRejection(parseRejection(thrown)) : fromTrap(thrown);
}

/** Converts a rejection to the error class for its code. */
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
      // "not_found" cannot occur here: model.ts looks names up.
      return new InvalidInputError(message);
  }
}

/** Turns a message of the core, which is lower case and has no full stop, into a sentence. */
function sentence(message: string): string {
  const text = message.charAt(0).toUpperCase() + message.slice(1);
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

/** Converts a trap. The core rejects bad input without trapping, so the cause is memory that could not grow, or a bug. */
function fromTrap(thrown: unknown): ZstnError {
  const cause = thrown instanceof Error ? thrown.message : String(thrown);
  return new InternalError(
    `The WebAssembly core stopped unexpectedly (${cause}). There may not be enough memory. Open the model again, or repeat the call.`,
    { cause: thrown },
  );
}
