/** Reads one tensor of a packed 42 MB model over HTTP; the server counts the bytes. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { open } from "zstn";
import { MIDDLE_TENSOR, writeLanguageModel } from "../support/checkpoint.mjs";
import { pack, serve } from "../support/cli.mjs";
import { framing } from "../support/framing.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { cost } from "../support/traffic.mjs";

const scratch = scratchFolder();
let server;
let tensors;

before(async () => {
  tensors = await writeLanguageModel(join(scratch, "model.safetensors"));
  await pack(join(scratch, "model.safetensors"), join(scratch, "model.zstn"));
  server = await serve(scratch);
});
after(() => server?.stop());

test("one tensor takes three requests and little more than its own bytes", async () => {
  const first = server.requests.length;
  const model = await open(`${server.url}model.zstn`);
  const tensor = await model.tensor(MIDDLE_TENSOR);
  assert.deepEqual(Buffer.from(tensor.bytes), Buffer.from(tensors[MIDDLE_TENSOR].bytes));
  assert.equal(tensor.bytes.byteLength, 1_572_864);

  const log = (await server.settled(first + model.stats.requests)).slice(first);
  assert.ok(log.length <= 3, `${log.length} requests: ${JSON.stringify(log)}`);
  assert.ok(log.every(({ status, method }) => status === 206 && method === "GET"));
  assert.ok(log.every(({ range }) => /^bytes=\d+-\d+$/.test(range)), "no suffix ranges");
  const fetchedBytes = log.reduce((sum, { bytes }) => sum + bytes, 0);
  const { headerBytes, indexBytes } = framing(readFileSync(join(scratch, "model.zstn")));
  const allowed = model.tensors.get(MIDDLE_TENSOR).storedLength + indexBytes + headerBytes + 65536;
  assert.ok(fetchedBytes <= allowed, `${fetchedBytes} bytes, allowed are ${allowed}`);
  assert.deepEqual(cost(model.stats), { requests: log.length, roundTrips: log.length, bytesFetched: fetchedBytes });
  model.close();
});

test("the packed file is smaller, and shares the tied embeddings", async () => {
  const model = await open(`${server.url}model.zstn`);
  const original = await open(`${server.url}model.safetensors`);
  assert.ok(model.size < 0.75 * original.size, `${model.size} of ${original.size} bytes`);
  const tied = model.tensors.get("transformer.wte.weight");
  assert.equal(tied.aliasOf, "lm_head.weight");
  assert.deepEqual((await model.tensor("transformer.wte.weight")).data, (await model.tensor("lm_head.weight")).data);
});

test("a plain safetensors file is read lazily too", async () => {
  const model = await open(`${server.url}model.safetensors`);
  const tensor = await model.tensor("transformer.h.0.ln_1.weight");
  assert.deepEqual(Buffer.from(tensor.bytes), Buffer.from(tensors[tensor.name].bytes));
  assert.deepEqual(cost(model.stats), { requests: 2, roundTrips: 2, bytesFetched: 32768 + 2048 });
});

test("several tensors at once", async () => {
  const model = await open(`${server.url}model.zstn`);
  const names = ["transformer.h.0.ln_1.weight", "transformer.wpe.weight", "transformer.ln_f.weight"];
  const before = model.stats.roundTrips;
  const read = await Promise.all(names.map((name) => model.tensor(name)));
  for (const [i, tensor] of read.entries()) assert.deepEqual(Buffer.from(tensor.bytes), Buffer.from(tensors[names[i]].bytes));
  assert.equal(model.stats.roundTrips, before + 1);
});

test("progress comes while the bytes arrive", async () => {
  const opened = [];
  const model = await open(`${server.url}model.zstn`, { onProgress: (progress) => opened.push(progress) });
  assert.ok(opened.every(({ loadedBytes, totalBytes }) => loadedBytes <= totalBytes));
  assert.equal(opened.at(-1).loadedBytes, model.stats.bytesFetched);
  assert.equal(opened.at(-1).totalBytes, model.stats.bytesFetched);
  const loaded = [];
  await model.tensor(MIDDLE_TENSOR, { onProgress: ({ loadedBytes }) => loaded.push(loadedBytes) });
  assert.ok(loaded.length > 3, `${loaded.length} calls for a megabyte`);
  assert.deepEqual(loaded, [...loaded].sort((a, b) => a - b));
  assert.equal(loaded.at(-1), model.tensors.get(MIDDLE_TENSOR).storedLength);
});

test("an error thrown by onProgress comes through untouched", async () => {
  const mine = new RangeError("no room for the bar");
  const fail = () => {
    throw mine;
  };
  await assert.rejects(open(`${server.url}model.zstn`, { onProgress: fail }), (error) => error === mine);
  const model = await open(`${server.url}model.zstn`);
  await assert.rejects(model.tensor(MIDDLE_TENSOR, { onProgress: fail }), (error) => error === mine);
});

test("an aborted read rejects with the reason of its signal, and the model stays usable", async () => {
  const model = await open(`${server.url}model.zstn`);
  const reason = new Error("looked away");
  const stop = new AbortController();
  const reading = model.tensor("lm_head.weight", { signal: stop.signal, onProgress: () => stop.abort(reason) });
  await assert.rejects(reading, (error) => error === reason);
  assert.ok(model.stats.bytesFetched < model.tensors.get("lm_head.weight").storedLength, "the rest was not downloaded");
  assert.equal((await model.tensor("transformer.ln_f.weight")).data.length, 512);
});

test("opening can be aborted, before and during", async () => {
  const url = `${server.url}model.zstn`;
  await assert.rejects(open(url, { signal: AbortSignal.abort() }), { name: "AbortError" });
  const stop = new AbortController();
  const opening = open(url, { signal: stop.signal });
  stop.abort();
  await assert.rejects(opening, { name: "AbortError" });
  await assert.rejects(open(url, { signal: AbortSignal.timeout(0) }), { name: "TimeoutError" });
});

test("closing the model stops a read under way", async () => {
  const model = await open(`${server.url}model.zstn`);
  const reading = model.tensor("lm_head.weight", { onProgress: () => model.close() });
  await assert.rejects(reading, { name: "ModelClosedError" });
});

test("headers and fetch of one's own are used for every request", async () => {
  const calls = [];
  const fetch = (url, init) => {
    calls.push({ url, token: new Headers(init.headers).get("authorization") });
    return globalThis.fetch(url, init);
  };
  const model = await open(`${server.url}model.zstn`, { fetch, headers: { Authorization: "Bearer t" } });
  await model.tensor("transformer.ln_f.weight");
  assert.equal(calls.length, model.stats.requests);
  assert.ok(calls.every(({ url, token }) => url === `${server.url}model.zstn` && token === "Bearer t"));
});
