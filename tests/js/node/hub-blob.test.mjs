/** The Blob that `downloadFile` of @huggingface/hub returns, which fetches the bytes that are read. */

import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { downloadFile } from "@huggingface/hub";
import { open } from "zstn";
import { safetensors } from "../support/checkpoint.mjs";
import { pattern } from "../support/fault-server.mjs";
import { READER, TOKEN, stubHub } from "../support/stub-hub.mjs";

const names = Array.from({ length: 6 }, (_, i) => `t${i}`);
// The first tensor is longer than the bytes that opening reads.
const tensors = Object.fromEntries([["pad", 60_000], ...names.map((name) => [name, 50_000])].map(([name, length], i) => [name, { dtype: "U8", shape: [length], bytes: pattern(length, i + 1) }]));
const bytes = new Uint8Array(safetensors(tensors));
const same = (tensor) => assert.deepEqual(tensor.bytes, new Uint8Array(tensors[tensor.name].bytes));

let server;
before(async () => {
  server = await stubHub();
  await server.add("me/model", { "model.safetensors": bytes });
  await server.add("me/private", { "model.safetensors": bytes }, { private: true });
});
after(() => server?.stop());
beforeEach(() => server.heal());

const blobOf = (options = {}) => downloadFile({ repo: "me/model", path: "model.safetensors", hubUrl: server.endpoint, accessToken: TOKEN, ...options });

/** Returns the ranges that were requested since the last `clearLog`, from any server. */
const ranges = async () => (await server.log()).filter(({ status, headers }) => status === 206 && headers.range).map(({ headers }) => headers.range);

test("tensors asked for together are one request, with the token", async () => {
  const model = await open(await blobOf({ repo: "me/private" }));
  await server.clearLog();
  for (const tensor of await Promise.all(names.map((name) => model.tensor(name)))) same(tensor);
  assert.equal((await ranges()).length, 1);
  const asked = (await server.log()).filter(({ path }) => path.startsWith("/me/"));
  assert.ok(asked.length === 1 && asked[0].headers.authorization === `Bearer ${TOKEN}`);
});

for (const [what, fault] of [
  ["an error status that may pass", { times: 2, status: 503 }],
  ["a connection that breaks in the middle", { times: 1, cut_bytes: 20_000 }],
]) {
  test(`${what} is tried again`, async () => {
    const model = await open(await blobOf());
    const received = [];
    await server.inject({ ...fault, method: "GET" });
    same(await model.tensor("t0", { onProgress: ({ loadedBytes }) => received.push(loadedBytes) }));
    assert.equal(received.at(-1), 50_000);
    assert.deepEqual(received, received.toSorted((a, b) => a - b), "what came twice is announced once");
  });
}

test("a refusal is a typed error, after one more request to learn it, and never a changed file", async () => {
  for (const status of [401, 403, 404]) {
    const model = await open(await blobOf());
    await server.inject({ status });
    await server.clearLog();
    await assert.rejects(model.tensor("t0"), (error) => {
      assert.equal(error.code, "http");
      assert.equal(error.status, status);
      assert.match(error.url, /^http/);
      assert.match(error.message, new RegExp(`the server answered ${status}\\.`));
      assert.doesNotMatch(error.message, /choose it again|changed|hf_/);
      assert.equal(/accessToken/.test(error.message), status !== 404);
      return true;
    });
    await server.heal();
    assert.equal((await server.log()).filter((request) => request.status === status).length, 2);
    same(await model.tensor("t0"));
  }
  await assert.rejects(async () => open(await blobOf({ repo: "me/private", accessToken: undefined })), /Invalid username or password/);
  same(await (await open(await blobOf({ repo: "me/private", accessToken: READER }))).tensor("t1"));
});

test("a file that became shorter, and a server without ranges, are said to be that", async () => {
  const model = await open(await blobOf());
  await server.inject({ status: 416 });
  await assert.rejects(model.tensor("t0"), { code: "changed", message: /changed while it was being read/ });
  await server.heal();

  let ignoresRanges = false;
  const withoutRange = ({ headers: { Range, ...headers } = {}, ...init } = {}) => ({ ...init, headers });
  const whole = await open(await blobOf({ fetch: (url, init) => fetch(url, ignoresRanges ? withoutRange(init) : init) }));
  ignoresRanges = true;
  await assert.rejects(whole.tensor("t0"), { code: "truncated", message: /does not support range requests/ });
});

test("an abort ends the request, and closing the model does", async () => {
  const model = await open(await blobOf());
  await server.inject({ method: "GET", wait_ms: 60_000 });
  const stop = new AbortController();
  const reason = new Error("enough");
  const reading = model.tensor("t0", { signal: stop.signal });
  setTimeout(() => stop.abort(reason), 50);
  await assert.rejects(reading, (error) => error === reason);
  const closing = model.tensor("t1");
  setTimeout(() => model.close(), 50);
  await assert.rejects(closing, { code: "closed" });
});

test("a read for which there is no memory is not tried again", async () => {
  let full = false;
  let asked = 0;
  const model = await open(await blobOf({ fetch: (url, init) => (full && ++asked ? Promise.reject(new RangeError("Array buffer allocation failed")) : fetch(url, init)) }));
  full = true;
  await assert.rejects(model.tensor("t0"), { code: "limit", message: /no memory for \d+ bytes/ });
  assert.equal(asked, 2, "its stream, and once more to learn why that failed");
});
