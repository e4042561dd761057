/** Servers that violate HTTP: the classes and messages of the errors. faults.test.mjs covers every fault. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { open } from "zstn";
import { safetensors } from "../support/checkpoint.mjs";
import { answerRange, startServer } from "../support/server.mjs";

/** A file that is longer than the head, so that reading the tensor is a separate request. */
const large = safetensors({ w: { dtype: "F32", shape: [16384], bytes: new Uint8Array(65536).fill(1) } });

/** Runs `work` with the address of a server that answers with `handler`. */
async function against(handler, work) {
  const server = await startServer(handler);
  try {
    await work(`${server.url}model.zstn`, server.requests);
  } finally {
    await server.stop();
  }
}

test("a server without ranges is refused, and the file is not downloaded", { timeout: 60_000 }, async () => {
  let hungUp;
  const goodbye = new Promise((resolve) => { hungUp = resolve; });
  const endless = (_request, response) => {
    response.writeHead(200, { "content-length": 10 ** 10 });
    response.write(Buffer.alloc(1000));
    response.on("close", hungUp);
  };
  await against(endless, async (url) => {
    await assert.rejects(open(url), { name: "RangeNotSupportedError", code: "range_not_supported", url, message: /does not support range requests/ });
    await goodbye;
  });
});

for (const [status, pattern] of [
  [404, /no file at .*model\.zstn.*404/],
  [403, /Not allowed.*403.*headers/],
  [429, /Too many requests/],
  [503, /has a problem.*503/],
  [418, /Could not read .*418/],
]) {
  test(`status ${status}`, async () => {
    await against((_request, response) => response.writeHead(status).end("no"), async (url) => {
      await assert.rejects(open(url), { name: "HttpError", code: "http", status, url, message: pattern });
    });
  });
}

test("the query of an address stays out of messages: it may hold a token", async () => {
  await against((_request, response) => response.writeHead(403).end(), async (url) => {
    await assert.rejects(open(`${url}?token=geheim`), (error) => {
      assert.equal(error.url, `${url}?token=geheim`);
      assert.doesNotMatch(error.message, /geheim/);
      return true;
    });
  });
});

test("nobody listens", async () => {
  let gone;
  await against(() => {}, async (url) => { gone = url; });
  await assert.rejects(open(gone), { name: "NetworkError", code: "network", url: gone, message: /Could not reach .*ECONNREFUSED\).*connection\.$/ });
});

test("a server that goes away is looked for again", async () => {
  const server = await startServer((request, response) => answerRange(request, response, large, { connection: "close" }));
  const model = await open(`${server.url}model.zstn`, { retries: 1 });
  await server.stop();
  await assert.rejects(model.tensor("w"), { code: "network", message: /Tried 2 times/ });
});

test("redirects in a circle are followed once", async () => {
  await against((_request, response) => response.writeHead(302, { location: "/round" }).end(), async (url, requests) => {
    await assert.rejects(open(url), { code: "network", message: /redirects to a file that does not exist/ });
    assert.equal(requests.filter(({ path }) => path === "/model.zstn").length, 1);
  });
});

test("a body that ends early", async () => {
  const breaking = (request, response) => {
    const first = request.headers.range.startsWith("bytes=0-");
    if (first) return answerRange(request, response, large);
    const [, from, to] = /(\d+)-(\d+)/.exec(request.headers.range);
    response.writeHead(206, { "content-range": `bytes ${from}-${to}/${large.length}`, "content-length": to - from + 1 });
    response.write(large.subarray(0, 1000), () => setTimeout(() => response.destroy(), 30));
  };
  await against(breaking, async (url) => {
    const model = await open(url);
    await assert.rejects(model.tensor("w"), { name: "TruncatedError", code: "truncated", expectedBytes: 65536, receivedBytes: 1000, message: /after 1000 of 65536 bytes/ });
  });
});

test("a web page instead of a file", async () => {
  const page = Buffer.from(`<!doctype html><title>Sign in</title>${" ".repeat(500)}`);
  await against((request, response) => answerRange(request, response, page), async (url) => {
    await assert.rejects(open(url), { name: "FormatError", code: "malformed", message: /web page \(HTML\)/ });
  });
});

for (const [how, handler] of [
  ["416", (_request, response) => response.writeHead(416, { "content-range": "bytes */0" }).end()],
  ["200", (_request, response) => response.writeHead(200, { "content-length": 0 }).end()],
]) {
  test(`an empty file, answered with ${how}`, async () => {
    await against(handler, (url) => assert.rejects(open(url), { name: "FormatError", code: "malformed" }));
  });
}

test("a size that the answer does not show is asked for with HEAD", async () => {
  const hiding = (request, response) => {
    const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "");
    if (!range) return response.writeHead(200, { "content-length": large.length }).end();
    const last = Math.min(Number(range[2]), large.length - 1);
    response.writeHead(206, { "content-range": `bytes ${range[1]}-${last}/*` });
    return response.end(large.subarray(Number(range[1]), last + 1));
  };
  await against(hiding, async (url, requests) => {
    const model = await open(url);
    assert.equal(model.size, large.length);
    assert.equal((await model.tensor("w")).data.length, 16384);
    assert.deepEqual(requests.map(({ method }) => method), ["GET", "HEAD", "GET"]);
    assert.equal(model.stats.requests, 3);
  });
});

