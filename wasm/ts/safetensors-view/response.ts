/** Builds the HTTP responses for one file: GET and HEAD, whole or a range (RFC 9110). */

import type { SafetensorsBlob } from "./blob.js";
import { requestedRange } from "./range-header.js";

/** The longest body that is read completely before the response begins, in bytes, so that a failure still sets the status. */
const MAX_BUFFERED_BYTES = 4 << 20;

/** The members of a request that affect the response. */
export type RangeRequest = Pick<Request, "method" | "headers"> & { readonly signal?: AbortSignal };

/**
 * Returns the response to a GET or HEAD request. `etag` identifies the version of the file; `undefined` if the version
 * is unknown.
 */
export async function respond({ method, headers, signal }: RangeRequest, file: SafetensorsBlob, etag: string | undefined): Promise<Response> {
  const common: Record<string, string> = { "accept-ranges": "bytes", "content-type": file.type };
  if (etag !== undefined) common.etag = etag;
  if (etag !== undefined && isAmong(etag, headers.get("if-none-match"))) return new Response(null, { status: 304, headers: common });
  const condition = headers.get("if-range");
  const range = condition === null || condition === etag ? requestedRange(method === "GET" ? headers.get("range") : null, file.size) : "whole";
  if (range === "unsatisfiable") {
    return new Response(null, { status: 416, headers: { ...common, "content-range": `bytes */${file.size}`, "content-length": "0" } });
  }
  const part = range === "whole" ? file : file.slice(range.begin, range.end);
  const partial = range !== "whole" && { "content-range": `bytes ${range.begin}-${range.end - 1}/${file.size}` };
  const init = { status: partial ? 206 : 200, headers: { ...common, ...partial, "content-length": String(part.size) } };
  if (method === "HEAD") return new Response(null, init);
  const options = signal && { signal };
  return new Response(part.size <= MAX_BUFFERED_BYTES ? await part.arrayBuffer(options) : part.stream(options), init);
}

/** Returns whether a header `If-None-Match` contains `etag`. The comparison is weak. */
function isAmong(etag: string, list: string | null): boolean {
  if (list === null) return false;
  return list.split(",").some((item) => item.trim() === "*" || item.trim().replace(/^W\//, "") === etag);
}
