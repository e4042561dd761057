/** Small HTTP servers: one for the files of a page, and one with a test's own handler. */

import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";

const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".wasm": "application/wasm", ".svg": "image/svg+xml" };

/** Starts a server that answers with `handler`. `requests` lists the method, path and Range header of all requests. */
export async function startServer(handler) {
  const requests = [];
  const server = createServer((request, response) => {
    requests.push({ method: request.method, path: request.url, range: request.headers.range });
    handler(request, response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const stop = () =>
    new Promise((resolve) => {
      server.close(resolve);
      server.closeAllConnections();
    });
  return { url: `http://127.0.0.1:${server.address().port}/`, requests, stop };
}

/**
 * Serves files of folders as a whole, without ranges: {"/prefix/": folder, …}, the longest prefix first. `pages` are
 * texts by path: HTML, or { type, text }. `headers` are added to every answer; if it is a function, those that it
 * returns for the path.
 */
export function startSite(folders, pages = {}, headers = {}) {
  return startServer(async (request, response) => {
    const path = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
    for (const [name, value] of Object.entries(typeof headers === "function" ? headers(path) : headers)) response.setHeader(name, value);
    if (Object.hasOwn(pages, path)) {
      const { type, text } = typeof pages[path] === "string" ? { type: TYPES[".html"], text: pages[path] } : pages[path];
      response.writeHead(200, { "content-type": type });
      return response.end(text);
    }
    const prefix = Object.keys(folders).find((candidate) => path.startsWith(candidate));
    const file = prefix && join(folders[prefix], normalize(`/${path.slice(prefix.length)}`));
    const info = file && (await stat(file).catch(() => undefined));
    if (!info?.isFile()) {
      response.writeHead(404);
      return response.end();
    }
    response.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream", "content-length": info.size });
    createReadStream(file).pipe(response);
  });
}

/** Answers a range request correctly, with additional headers in `extra`. */
export function answerRange(request, response, bytes, extra = {}) {
  const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "");
  if (!range) {
    response.writeHead(200, { "content-length": bytes.length, ...extra });
    return response.end(request.method === "HEAD" ? undefined : bytes);
  }
  const first = Number(range[1]);
  const last = Math.min(Number(range[2]), bytes.length - 1);
  const part = bytes.subarray(first, last + 1);
  response.writeHead(206, { "content-range": `bytes ${first}-${last}/${bytes.length}`, "content-length": part.length, ...extra });
  return response.end(part);
}
