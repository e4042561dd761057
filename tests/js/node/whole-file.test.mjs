/** Servers that do not support ranges: small files are downloaded whole, once. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { open } from "zstn";
import { resetAfter, startFaultServer, whole } from "../support/fault-server.mjs";
import { readAndCheck, version } from "../support/faulty-model.mjs";
import { scratchFolder } from "../support/scratch.mjs";

const file = version();
const scratch = scratchFolder();

async function against(options, work) {
  const server = await startFaultServer(file, options);
  try {
    await work(server);
  } finally {
    await server.stop();
  }
}

test("a small file comes in one answer, and every tensor out of memory", async () => {
  await against({ always: whole }, async (server) => {
    const heard = [];
    const model = await open(server.url, { onProgress: (progress) => heard.push(progress), cache: 1 << 24 });
    assert.equal(model.size, file.bytes.length);
    for (const name of model.tensors.keys()) await readAndCheck(model, file, name);
    assert.deepEqual({ ...model.stats }, { requests: 1, roundTrips: 1, bytesFetched: file.bytes.length, cacheHits: 0, cacheBytes: 0, retries: 0 });
    assert.ok(heard.every(({ totalBytes }) => totalBytes >= file.bytes.length), "the total is known from the start");
    assert.deepEqual(Object.values(heard.at(-1)), ["open", file.bytes.length, file.bytes.length]);
  });
});

test("up to the length allowed, and not a byte more", async () => {
  await against({ always: whole }, async (server) => {
    await assert.rejects(open(server.url, { maxFullDownloadBytes: file.bytes.length - 1 }), { code: "range_not_supported", message: /maxFullDownloadBytes/ });
    await assert.rejects(open(server.url, { maxFullDownloadBytes: 0 }), { code: "range_not_supported" });
    const told = [];
    const onFullDownload = (...about) => told.push(about);
    assert.equal((await open(server.url, { maxFullDownloadBytes: file.bytes.length, onFullDownload })).tensors.size, 5);
    await assert.rejects(open(server.url, { maxFullDownloadBytes: 0, onFullDownload }), { code: "range_not_supported" });
    assert.deepEqual(told, [[server.url, file.bytes.length]]);
  });
});

test("one cut short is read again from its beginning", async () => {
  const cut = (request, response) => {
    response.writeHead(200, { "content-length": file.bytes.length });
    response.write(file.bytes.subarray(0, 1_000_000), () => setTimeout(() => request.socket.resetAndDestroy(), 20));
  };
  await against({ always: whole, faults: [cut] }, async (server) => {
    const heard = [];
    const model = await open(server.url, { onProgress: ({ loadedBytes }) => heard.push(loadedBytes) });
    await readAndCheck(model, file, "d");
    assert.equal(heard.at(-1), file.bytes.length, "no byte is told twice");
    assert.equal(model.stats.retries, 1);
  });
});

test("a server that stops to send parts is an error, not a download", async () => {
  await against({}, async (server) => {
    const model = await open(server.url);
    server.always = whole;
    await assert.rejects(model.tensor("a"), { code: "range_not_supported" });
    server.always = resetAfter(10);
    await assert.rejects(model.tensor("a", { signal: AbortSignal.timeout(50) }), { name: "TimeoutError" });
  });
});

test("Python's http.server", async () => {
  writeFileSync(join(scratch, "model.safetensors"), file.bytes);
  const server = spawn("python3", ["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", scratch], { stdio: ["ignore", "pipe", "ignore"] });
  try {
    const [line] = await once(server.stdout, "data");
    const url = `http://127.0.0.1:${/port (\d+)/.exec(line)[1]}/model.safetensors`;
    const model = await open(url);
    for (const name of model.tensors.keys()) await readAndCheck(model, file, name);
    assert.equal(model.stats.requests, 1);
    await assert.rejects(open(url, { maxFullDownloadBytes: 1000 }), { code: "range_not_supported" });
    await assert.rejects(open(`${url}x`), { code: "http", status: 404 });
  } finally {
    server.kill();
    if (server.exitCode === null) await once(server, "exit");
  }
});
