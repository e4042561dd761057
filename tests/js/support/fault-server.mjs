/**
 * A file server with faults that a test chooses. It otherwise answers correctly: ranges, If-Range, ETag, CORS. It is
 * for pages and for tests that depend on the exact order of events; all faults are in tests/faults, see
 * fault-table.mjs.
 */

import { gzipSync } from "node:zlib";
import { startServer } from "./server.mjs";

/**
 * Serves `file` ({ bytes, etag, lastModified }, which may be changed at any time) at every path. Each of `faults`,
 * functions of (request, response, state), answers one request instead, in order; `always` answers all requests. `cors`
 * selects the headers for pages: "open" exposes all response headers, "hidden" only those that browsers always expose.
 */
export async function startFaultServer(file, { faults = [], always, cors } = {}) {
  const state = { file, faults: [...faults], always, cors, log: [] };
  const server = await startServer((request, response) => {
    state.log.push({ method: request.method, path: request.url, headers: { ...request.headers } });
    for (const [name, value] of Object.entries(CORS[state.cors] ?? {})) response.setHeader(name, value);
    if (request.method === "OPTIONS") return response.writeHead(state.cors === "token" ? 204 : 403, PREFLIGHT).end();
    const fault = state.faults.shift() ?? state.always;
    return fault ? fault(request, response, state) : answer(request, response, state.file);
  });
  return Object.assign(state, { url: `${server.url}model`, origin: new URL(server.url).origin, stop: server.stop });
}

const CORS = {
  open: { "access-control-allow-origin": "*", "access-control-expose-headers": "Content-Range, ETag, Retry-After, Content-Encoding" },
  hidden: { "access-control-allow-origin": "*" },
  token: { "access-control-allow-origin": "*", "access-control-expose-headers": "Content-Range, ETag" },
};
const PREFLIGHT = { "access-control-allow-methods": "GET, HEAD", "access-control-allow-headers": "Authorization", "access-control-max-age": "0" };

const versionHeaders = ({ etag, lastModified }) => ({ ...(etag && { etag }), ...(lastModified && { "last-modified": lastModified }) });

/** Returns the requested bytes and their range; `undefined` without a range, or if the range is for another version. */
function asked(request, { bytes, etag, lastModified }) {
  const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "");
  const condition = request.headers["if-range"];
  if (!range || (condition !== undefined && condition !== (etag ?? lastModified))) return undefined;
  const first = Number(range[1]);
  const last = Math.min(Number(range[2]), bytes.length - 1);
  return { first, last, part: bytes.subarray(first, last + 1), contentRange: `bytes ${first}-${last}/${bytes.length}` };
}

/** Answers a request correctly. */
export function answer(request, response, file) {
  const range = asked(request, file);
  const headers = { "content-type": "application/octet-stream", ...versionHeaders(file) };
  if (!range) {
    response.writeHead(200, { ...headers, "content-length": file.bytes.length });
    return response.end(request.method === "HEAD" ? undefined : file.bytes);
  }
  if (range.first >= file.bytes.length) return response.writeHead(416, { "content-range": `bytes */${file.bytes.length}` }).end();
  response.writeHead(206, { ...headers, "content-range": range.contentRange, "content-length": range.part.length });
  return response.end(range.part);
}

/**
 * Sends the head of a correct answer and the first `bytes` bytes of its body, then calls `next`: once `arrived()`
 * returns true, or after a moment.
 */
function begin(request, response, file, bytes, next, arrived = () => true) {
  const { part, contentRange } = asked(request, file);
  response.writeHead(206, { "content-range": contentRange, "content-length": part.length, ...versionHeaders(file) });
  const wait = () => setTimeout(() => (arrived() ? next() : wait()), 20);
  response.write(part.subarray(0, bytes), wait);
}

/** Closes the connection without an answer. */
export const reset = (request) => void request.socket.resetAndDestroy();

/**
 * Resets the connection after `bytes` bytes of the body. A reset also drops data in flight. If the number of received
 * bytes matters, pass `model`, which must have fetched `bytes` more bytes before the reset.
 */
export const resetAfter = (bytes, model) => (request, response, { file }) => {
  const before = model?.stats.bytesFetched;
  begin(request, response, file, bytes, () => request.socket.resetAndDestroy(), model && (() => model.stats.bytesFetched - before >= bytes));
};

/** Sends a body that is shorter than its range, with a matching Content-Length. */
export const cutTo = (bytes) => (request, response, { file }) => {
  const { part, contentRange } = asked(request, file);
  response.writeHead(206, { "content-range": contentRange, "content-length": Math.min(bytes, part.length), ...versionHeaders(file) });
  response.end(part.subarray(0, bytes));
};

/** Sends at most the first `bytes` bytes of the requested range, with a matching Content-Range. */
export const shorter = (bytes) => (request, response, { file }) => {
  const { first, part } = asked(request, file);
  const sent = part.subarray(0, bytes);
  const contentRange = `bytes ${first}-${first + sent.length - 1}/${file.bytes.length}`;
  response.writeHead(206, { "content-range": contentRange, "content-length": sent.length, ...versionHeaders(file) });
  response.end(sent);
};

/** Never answers. */
export const silence = () => {};

/** Sends the head and `bytes` bytes of the body, then stalls. */
export const stallAfter = (bytes) => (request, response, { file }) => begin(request, response, file, bytes, () => {});

export const status = (code, headers = {}) => (_request, response) => response.writeHead(code, headers).end("no");

/** Sends the whole file for every request. */
export const whole = (request, response, { file }) => {
  delete request.headers.range;
  answer(request, response, file);
};

/** Sends another range than requested, with a matching Content-Range. */
export const wrongRange = (_request, response, { file }) => {
  const part = file.bytes.subarray(7, 107);
  response.writeHead(206, { "content-range": `bytes 7-106/${file.bytes.length}`, "content-length": part.length, ...versionHeaders(file) });
  response.end(part);
};

/** Sends the requested range compressed. */
export const compressed = (request, response, { file }) => {
  const range = asked(request, file);
  const body = gzipSync(range ? range.part : file.bytes);
  const headers = { "content-encoding": "gzip", "content-length": body.length, ...versionHeaders(file) };
  response.writeHead(range ? 206 : 200, range ? { ...headers, "content-range": range.contentRange } : headers);
  response.end(body);
};

/** Redirects to the origin `to`. */
export const redirect = (to) => (request, response) => response.writeHead(302, { location: `${to}/signed${request.url}?signature=s3cret` }).end();

/** Returns pseudorandom bytes that depend only on the seed. */
export function pattern(length, seed) {
  const bytes = new Uint8Array(length);
  let state = seed;
  for (let i = 0; i < length; i++) {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    bytes[i] = state >>> 16;
  }
  return bytes;
}
