/**
 * Packing from a URL reads ahead: many small tensors share a request, and the next bytes are fetched while the previous
 * ones are packed.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { open, pack } from "zstn";
import { bf16Tensor, safetensors, xorshift } from "../support/checkpoint.mjs";
import { answerRange, startServer } from "../support/server.mjs";
import { sha256 } from "../support/vectors.mjs";

const random = xorshift(17);
const TENSORS = 150;
const bf16 = (elements) => ({ dtype: "BF16", shape: [elements], bytes: bf16Tensor(elements, random) });
const tensors = Object.fromEntries(Array.from({ length: TENSORS }, (_, i) => [`t.${String(i).padStart(3, "0")}`, bf16(32_000 + (i % 7))]));
tensors["u.large"] = bf16(2_500_000);
const file = safetensors(tensors);

/** Serves `bytes` slowly, and counts the requests, the bytes and the concurrent requests. */
async function startSlow(bytes) {
  const seen = { requests: 0, bytes: 0, together: 0 };
  let underWay = 0;
  const server = await startServer(async (request, response) => {
    seen.requests += 1;
    seen.together = Math.max(seen.together, (underWay += 1));
    response.once("close", () => (underWay -= 1));
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range);
    seen.bytes += Math.min(Number(last), bytes.length - 1) - Number(first) + 1;
    await pause(30);
    answerRange(request, response, bytes, { etag: '"1"' });
  });
  return { ...server, seen };
}

const bytesOf = async (blob) => new Uint8Array(await blob.arrayBuffer());

test("a few requests, of which some are under way together, read every byte once; the packed file is the same", async () => {
  const server = await startSlow(file);
  try {
    const heard = [];
    const { blob } = await pack(`${server.url}model.safetensors`, { onProgress: ({ loadedBytes }) => heard.push(loadedBytes) });
    assert.equal(sha256(await bytesOf(blob)), sha256(await bytesOf((await pack(file)).blob)));
    const { requests, bytes, together } = server.seen;
    assert.ok(requests <= 12, `${requests} requests for ${TENSORS + 1} tensors`);
    assert.ok(together >= 2, "one request after the other");
    assert.equal(bytes, file.length);
    assert.equal(heard.at(-1), file.length);
  } finally {
    await server.stop();
  }
});

test("so does packing against a base", async () => {
  const changed = { ...tensors, "t.004": bf16(32_004) };
  const servers = await Promise.all([startSlow(safetensors(changed)), startSlow(file)]);
  try {
    const [tuned, base] = servers.map(({ url }) => `${url}model.safetensors`);
    const { blob } = await pack(tuned, { base });
    const model = await open(blob, { base: file });
    assert.equal(sha256((await model.tensor("t.004")).bytes), sha256(changed["t.004"].bytes));
    model.close();
    for (const { seen } of servers) assert.ok(seen.requests <= 20, `${seen.requests} requests`);
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
  }
});

test("reading elsewhere ends what is read ahead, and progress counts what was handed out", async () => {
  const { withReadAhead } = await import("../../../wasm/dist/source/with-read-ahead.js");
  const bytes = new Uint8Array(64 << 20).map((_, i) => i >> 16);
  const reads = [];
  const source = {
    size: () => bytes.length,
    async read(offset, length, { signal, onBytes } = {}) {
      reads.push({ offset, length, signal });
      onBytes?.(length);
      return bytes.subarray(offset, offset + length);
    },
  };
  const ahead = withReadAhead(source, undefined);
  await ahead.size();
  let loadedBytes = 0;
  let wantedBytes = 0;
  const read = async (offset, length) => {
    reads.length = 0;
    const got = await ahead.read(offset, length, { onBytes: (count) => (loadedBytes += count) });
    assert.equal(sha256(got), sha256(bytes.subarray(offset, offset + length)));
    assert.equal(loadedBytes, (wantedBytes += length));
    return [...reads];
  };
  const MB = 1 << 20;
  await read(0, 100);
  const [, first, second] = await read(100, MB);
  assert.deepEqual([first.length, second.length], [4 * MB, 4 * MB]);
  await read(MB + 100, 5 * MB);
  // Bytes that have arrived are not read again. The rest is fetched in a few requests, without reading ahead.
  const long = await read(6 * MB + 100, 30 * MB);
  assert.ok(long.length <= 2, `${long.length} requests`);
  assert.ok(long[0].offset > 6 * MB + 100);
  assert.equal(long.at(-1).offset + long.at(-1).length, 36 * MB + 100);
  assert.deepEqual((await read(36 * MB + 100, 20 * MB)).map(({ length }) => length), [20 * MB], "one piece");
  const [, dropped] = await read(56 * MB + 100, 10);
  assert.equal(dropped.signal.aborted, false);
  assert.deepEqual((await read(0, 10)).map(({ length }) => length), [10]);
  assert.equal(dropped.signal.aborted, true);
  ahead.stop();
});

test("an abort ends what is read ahead", async () => {
  const server = await startSlow(file);
  try {
    const stop = new AbortController();
    const packing = pack(`${server.url}model.safetensors`, { signal: stop.signal, onProgress: ({ loadedBytes }) => loadedBytes > 5e6 && stop.abort() });
    await assert.rejects(packing, { name: "AbortError" });
    await pause(200); // for requests in flight
    const { requests } = server.seen;
    await pause(200);
    assert.equal(server.seen.requests, requests);
  } finally {
    await server.stop();
  }
});

test("an error of the server that comes ahead is reported", async () => {
  let asked = 0;
  const server = await startServer((request, response) => {
    asked += 1;
    return asked > 3 ? response.writeHead(404).end() : answerRange(request, response, file, { etag: '"1"' });
  });
  try {
    await assert.rejects(pack(`${server.url}model.safetensors`), { code: "http", status: 404 });
  } finally {
    await server.stop();
  }
});
