/** A web server's answers about one file: GET and HEAD, whole or a range (RFC 9110). */

import type { SafetensorsBlob } from "./blob.js";
import { requestedRange } from "./byte-range.js";

/** Up to this length an answer is complete before it begins, so that what goes wrong has a status. In bytes. */
const AT_ONCE_BYTES = 4 << 20;

/** What matters of a request. */
export type Asked = Pick<Request, "method" | "headers"> & { readonly signal?: AbortSignal };

/** The answer to `request`, which is a GET or HEAD; `etag` names the version of the file, if that can be told. */
export async function answer({ method, headers, signal }: Asked, file: SafetensorsBlob, etag: string | undefined): Promise<Response> {
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
  return new Response(part.size <= AT_ONCE_BYTES ? await part.arrayBuffer(options) : part.stream(options), init);
}

/** `If-None-Match` compares weakly. */
function isAmong(etag: string, list: string | null): boolean {
  if (list === null) return false;
  return list.split(",").some((item) => item.trim() === "*" || item.trim().replace(/^W\//, "") === etag);
}
