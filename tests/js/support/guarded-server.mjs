/**
 * A server that other origins may read: a hub, or plain files. It can require a token, and records the tokens that it
 * receives.
 */

import { answerRange, startServer } from "./server.mjs";

const CORS = { "access-control-allow-origin": "*", "access-control-expose-headers": "Content-Range, ETag" };
const PREFLIGHT = { "access-control-allow-methods": "GET, HEAD", "access-control-allow-headers": "Authorization", "access-control-max-age": "0" };

/**
 * Serves `files` ({ "/path": bytes }), and every repository as a hub that lists one `model.safetensors` in it. With
 * `token`, every request needs this token. `received` has the path and the token of each request, and `tokens()`
 * returns the tokens that were sent.
 */
export async function startGuarded({ files = {}, model, token, redirects = {} }) {
  const received = [];
  const server = await startServer((request, response) => {
    for (const [name, value] of Object.entries(CORS)) response.setHeader(name, value);
    if (request.method === "OPTIONS") return response.writeHead(204, PREFLIGHT).end();
    const path = new URL(request.url, "http://localhost").pathname;
    received.push({ path, token: request.headers.authorization });
    if (token !== undefined && request.headers.authorization !== `Bearer ${token}`) return response.writeHead(request.headers.authorization === undefined ? 401 : 403).end();
    if (redirects[path]) return response.writeHead(302, { location: redirects[path] }).end();
    if (path.startsWith("/api/models/")) return response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ siblings: [{ rfilename: "model.safetensors" }] }));
    const bytes = files[path] ?? (/^\/[^/]+\/[^/]+\/resolve\/[^/]+\/model\.safetensors$/.test(path) ? model : undefined);
    if (!bytes) return response.writeHead(404).end();
    return answerRange(request, response, bytes, { "accept-ranges": "bytes", etag: `"${bytes.length}"` });
  });
  return {
    ...server,
    host: new URL(server.url).host,
    origin: new URL(server.url).origin,
    received,
    tokens: () => received.flatMap(({ token: sent }) => (sent === undefined ? [] : [sent])),
    forget: () => received.splice(0),
  };
}
