/** Determines why a `fetch` of Node failed, from the code and the message in the `cause` of its error. */

import type { NetworkCause } from "../source/http/network-failure.js";

/** Returns what is known about the failure of a request or of a body. */
export function networkCause(error: unknown): NetworkCause {
  const { cause } = (error ?? {}) as { cause?: unknown };
  const { code: givenCode, message: givenMessage } = (cause ?? {}) as { code?: unknown; message?: unknown };
  const code = typeof givenCode === "string" ? givenCode : "";
  const message = typeof givenMessage === "string" ? givenMessage : "";
  if (isInvalidHttp(code)) return { code, isInvalidHttp: true, isLasting: true, sentence: (where) => `The answer of ${where} is not valid HTTP: ${message}.` };
  // The blocked port may belong to the address of a redirect (https://fetch.spec.whatwg.org/#port-blocking).
  if (message === "bad port") return { code, isLasting: true, sentence: (where) => `${where} needs a port that this runtime blocks. Use another one.` };
  // Most failures of redirects have no code, and a message that is not recognised only costs some attempts.
  if (code === "ERR_INVALID_URL" || /^(redirect count exceeded|URL scheme must be a HTTP\(S\) scheme)$/.test(message)) {
    return { code, isLasting: true, sentence: (where) => `${where} redirects to a file that does not exist: ${message}. Check the address.` };
  }
  // The server may never have existed, so these errors are retried only after it has answered once.
  const isNowhere = ["ECONNREFUSED", "ENOTFOUND", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"].includes(code);
  return { code, isLasting: isNowhere ? "until an answer" : isUntrusted(code) };
}

function isInvalidHttp(code: string): boolean {
  // The excluded code means that the connection ended in the middle.
  return (code.startsWith("HPE_") && code !== "HPE_INVALID_EOF_STATE") || code === "UND_ERR_HEADERS_OVERFLOW";
}

/** Returns whether TLS failed: the server has no certificate, an invalid one, or no TLS at all. */
function isUntrusted(code: string): boolean {
  return /^(ERR_SSL_|ERR_TLS_|CERT_|UNABLE_TO_)|_CERT(_|$)/.test(code);
}
