/**
 * Determines why a `fetch` failed, as far as the platform reports it. Node gives a code in the `cause` of the error.
 * Browsers give none: an unreachable server, a redirect loop, a response that is not HTTP and one that CORS forbids all
 * look alike.
 */

import { NetworkError } from "../../errors.js";
import { shortened } from "./error-message.js";
import { isBrowser } from "../environment.js";

interface Reason {
  code: string;
  message: string;
}

/** Returns the error for a request to `url` without a response. */
export function unanswered(url: string, cause: unknown): NetworkError {
  const where = shortened(url);
  const reason = reasonOf(cause);
  if (isInvalidHttp(reason)) return invalidHttp(url, cause);
  // The blocked port may belong to the address of a redirect (https://fetch.spec.whatwg.org/#port-blocking).
  if (reason.message === "bad port") return new NetworkError(url, `${where} needs a port that this runtime blocks. Use another one.`, { cause });
  if (isBadRedirect(reason)) return new NetworkError(url, `${where} redirects to a file that does not exist: ${reason.message}. Check the address.`, { cause });
  const code = reason.code === "" ? "" : ` (${reason.code})`;
  const hint = isBrowser() ? " The server must also allow web pages to read the file (CORS), and must not compress it." : "";
  return new NetworkError(url, `Could not reach ${where}${code}. Check address and connection.${hint}`, { cause });
}

/** Returns the error for a response whose body is not valid HTTP; `undefined` if `cause` is another failure. */
export function invalidBody(url: string, cause: unknown): NetworkError | undefined {
  return isInvalidHttp(reasonOf(cause)) ? invalidHttp(url, cause) : undefined;
}

/**
 * Returns whether the next request would fail in the same way. `hasAnswered` is true if the server has responded
 * before, so that an unreachable server may come back.
 */
export function isLasting({ cause }: NetworkError, hasAnswered: boolean): boolean {
  const reason = reasonOf(cause);
  if (isInvalidHttp(reason) || isBadRedirect(reason) || isUntrusted(reason)) return true;
  return isNowhere(reason) && !hasAnswered;
}

function invalidHttp(url: string, cause: unknown): NetworkError {
  const { message } = reasonOf(cause);
  return new NetworkError(url, `The answer of ${shortened(url)} is not valid HTTP: ${message}.`, { cause });
}

function reasonOf(error: unknown): Reason {
  const { cause } = (error ?? {}) as { cause?: unknown };
  const { code, message } = (cause ?? {}) as { code?: unknown; message?: unknown };
  return { code: typeof code === "string" ? code : "", message: typeof message === "string" ? message : "" };
}

function isInvalidHttp({ code }: Reason): boolean {
  // The excluded code means that the connection ended in the middle.
  return (code.startsWith("HPE_") && code !== "HPE_INVALID_EOF_STATE") || code === "UND_ERR_HEADERS_OVERFLOW";
}

/**
 * Returns whether a redirect failed. Most of these errors have no code in Node, and a message that is not recognised
 * only costs some attempts.
 */
function isBadRedirect({ code, message }: Reason): boolean {
  return code === "ERR_INVALID_URL" || /^(redirect count exceeded|URL scheme must be a HTTP\(S\) scheme|bad port)$/.test(message);
}

/** Returns whether TLS failed: the server has no certificate, an invalid one, or no TLS at all. */
function isUntrusted({ code }: Reason): boolean {
  return /^(ERR_SSL_|ERR_TLS_|CERT_|UNABLE_TO_)|_CERT(_|$)/.test(code);
}

function isNowhere({ code }: Reason): boolean {
  return ["ECONNREFUSED", "ENOTFOUND", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"].includes(code);
}
