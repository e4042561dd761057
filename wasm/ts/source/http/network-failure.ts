/**
 * Determines why a `fetch` failed, as far as the platform reports it. Browsers report nothing: an unreachable server, a
 * redirect loop, a response that is not HTTP and one that CORS forbids all look alike.
 */

import { NetworkError } from "../../errors.js";
import { shortened } from "./error-message.js";
import { isBrowser } from "../environment.js";

/** The cause of a failed `fetch`. */
export interface NetworkCause {
  /** The code of the system's error; empty if there is none. */
  code: string;
  /** True if the response was not valid HTTP. */
  isInvalidHttp?: true;
  /** Whether the next request would fail in the same way, or would do so until the server has answered once. */
  isLasting: boolean | "until an answer";
  /** Returns the message for the failure, in which `where` is the address. By default, the server could not be reached. */
  sentence?: (where: string) => string;
}

let causeOf: (error: unknown) => NetworkCause | undefined = () => undefined;

/** Sets the function that returns the cause of a failed `fetch`, on platforms that report it. */
export function setNetworkCause(networkCause: (error: unknown) => NetworkCause): void {
  causeOf = networkCause;
}

/** Returns the error for a request to `url` without a response. */
export function unanswered(url: string, cause: unknown): NetworkError {
  const where = shortened(url);
  const { code, sentence } = causeOf(cause) ?? {};
  const hint = isBrowser() ? " The server must also allow web pages to read the file (CORS), and must not compress it." : "";
  return new NetworkError(url, sentence?.(where) ?? `Could not reach ${where}${code ? ` (${code})` : ""}. Check address and connection.${hint}`, { cause });
}

/** Returns the error for a response whose body is not valid HTTP; `undefined` if `cause` is another failure. */
export function invalidBody(url: string, cause: unknown): NetworkError | undefined {
  return causeOf(cause)?.isInvalidHttp && unanswered(url, cause);
}

/**
 * Returns whether the next request would fail in the same way. `hasAnswered` is true if the server has responded
 * before, so that an unreachable server may come back.
 */
export function isLasting({ cause }: NetworkError, hasAnswered: boolean): boolean {
  const lasting = causeOf(cause)?.isLasting;
  return lasting === true || (lasting !== false && lasting !== undefined && !hasAnswered);
}
