/** From the plain objects that the WebAssembly core throws to the classes of errors.ts. */

import { FormatError, InvalidInputError, LimitError, UnsupportedError, ZstnError } from "./errors.js";
import type { Place } from "./errors.js";

interface Rejection extends Place {
  zstn: true;
  kind: string;
  message: string;
}

function isRejection(thrown: unknown): thrown is Rejection {
  return typeof thrown === "object" && thrown !== null && (thrown as { zstn?: unknown }).zstn === true;
}

/** Runs one call into the core; what it throws comes out as a `ZstnError`. */
export function guarded<T>(call: () => T): T {
  try {
    return call();
  } catch (thrown) {
    throw asError(thrown);
  }
}

/** An error that the core throws, or hands over, as a `ZstnError`. */
export function asError(thrown: unknown): ZstnError {
  return isRejection(thrown) ? fromRejection(thrown) : fromTrap(thrown);
}

function fromRejection(rejection: Rejection): ZstnError {
  const { kind } = rejection;
  const message = sentence(rejection.message);
  const place: Place = { rule: rejection.rule, offset: rejection.offset, tensor: rejection.tensor };
  switch (kind) {
    case "malformed":
      return new FormatError(message, place);
    case "unsupported":
      return new UnsupportedError(message, place);
    case "limit":
      return new LimitError(message, place);
    default:
      // "not_found" cannot reach this point: names are looked up in model.ts.
      return new InvalidInputError(message);
  }
}

/** The core's messages are made for the middle of a line; here they stand alone. */
function sentence(message: string): string {
  const text = message.charAt(0).toUpperCase() + message.slice(1);
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

/** A trap: the core answers bad input with rejections, so this is memory that could not grow, or a bug. */
function fromTrap(thrown: unknown): ZstnError {
  const cause = thrown instanceof Error ? thrown.message : String(thrown);
  return new LimitError(
    `The decoder stopped unexpectedly (${cause}). There may be too little memory for this file; otherwise please report it as a bug of zstn.`,
    {},
    { cause: thrown },
  );
}
