/**
 * A file server with faults that a test chooses, and otherwise correct: ranges, If-Range, ETag, CORS. For pages and for tests of the
 * exact order of events; all faults are in tests/faults, see fault-table.mjs.
 */

import { gzipSync } from "node:zlib";
import { startServer } from "./server.mjs";

/**
 * Serves `file` ({ bytes, etag, lastModified }, which may be changed at any time) at every path. `faults` are functions
 * (request, response, state) that answer one request each instead, the first one the first; `always` answers all.
 * `cors` gives the headers for pages: "open" shows them everything, "hidden" only what browsers always show.
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

/** Returns the requested bytes and their range; nothing without a range, or if it is for another version. */
function asked(request, { bytes, etag, lastModified }) {
  const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "");
  const condition = request.headers["if-range"];
  if (!range || (condition !== undefined && condition !== (etag ?? lastModified))) return undefined;
  const first = Number(range[1]);
  const last = Math.min(Number(range[2]), bytes.length - 1);
  return { first, last, part: bytes.subarray(first, last + 1), contentRange: `bytes ${first}-${last}/${bytes.length}` };
}

/** Answers correctly. */
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

/** Sends the head of a right answer and the first `bytes` of its body, then calls `next`: once `arrived()`, or after a moment. */
function begin(request, response, file, bytes, next, arrived = () => true) {
  const { part, contentRange } = asked(request, file);
  response.writeHead(206, { "content-range": contentRange, "content-length": part.length, ...versionHeaders(file) });
  const wait = () => setTimeout(() => (arrived() ? next() : wait()), 20);
  response.write(part.subarray(0, bytes), wait);
}

/** Closes the connection without an answer. */
export const reset = (request) => void request.socket.resetAndDestroy();

/**
 * The connection is gone after `bytes` of the body. A reset takes what is still on its way along: `model` has to have
 * fetched `bytes` more by then, where it matters how many arrive.
 */
export const resetAfter = (bytes, model) => (request, response, { file }) => {
  const before = model?.stats.bytesFetched;
  begin(request, response, file, bytes, () => request.socket.resetAndDestroy(), model && (() => model.stats.bytesFetched - before >= bytes));
};

/** The body is shorter than its range, and its length says so. */
export const cutTo = (bytes) => (request, response, { file }) => {
  const { part, contentRange } = asked(request, file);
  response.writeHead(206, { "content-range": contentRange, "content-length": Math.min(bytes, part.length), ...versionHeaders(file) });
  response.end(part.subarray(0, bytes));
};

/** At most the first `bytes` of what was asked for, in an answer that says so. */
export const shorter = (bytes) => (request, response, { file }) => {
  const { first, part } = asked(request, file);
  const sent = part.subarray(0, bytes);
  const contentRange = `bytes ${first}-${first + sent.length - 1}/${file.bytes.length}`;
  response.writeHead(206, { "content-range": contentRange, "content-length": sent.length, ...versionHeaders(file) });
  response.end(sent);
};

/** Never answers. */
export const silence = () => {};

/** Sends the head and a part of the body, then stalls. */
export const stallAfter = (bytes) => (request, response, { file }) => begin(request, response, file, bytes, () => {});

export const status = (code, headers = {}) => (_request, response) => response.writeHead(code, headers).end("no");

/** Sends the whole file for every request. */
export const whole = (request, response, { file }) => {
  delete request.headers.range;
  answer(request, response, file);
};

/** Sends other bytes than requested, and says so. */
export const wrongRange = (_request, response, { file }) => {
  const part = file.bytes.subarray(7, 107);
  response.writeHead(206, { "content-range": `bytes 7-106/${file.bytes.length}`, "content-length": part.length, ...versionHeaders(file) });
  response.end(part);
};

/** The right part, compressed. */
export const compressed = (request, response, { file }) => {
  const range = asked(request, file);
  const body = gzipSync(range ? range.part : file.bytes);
  const headers = { "content-encoding": "gzip", "content-length": body.length, ...versionHeaders(file) };
  response.writeHead(range ? 206 : 200, range ? { ...headers, "content-range": range.contentRange } : headers);
  response.end(body);
};

/** Redirects to the origin `to`. */
export const redirect = (to) => (request, response) => response.writeHead(302, { location: `${to}/signed${request.url}?signature=s3cret` }).end();

/** Bytes in which every position looks different from its neighbours. */
export function pattern(length, seed) {
  const bytes = new Uint8Array(length);
  let state = seed;
  for (let i = 0; i < length; i++) {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    bytes[i] = state >>> 16;
  }
  return bytes;
}
