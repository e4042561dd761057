/** Streams of tensors: their order, bounded reading ahead, merged requests, and early ends. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { open } from "zstn";
import { safetensors } from "../support/checkpoint.mjs";
import { pattern, startFaultServer, status } from "../support/fault-server.mjs";
import { version } from "../support/faulty-model.mjs";

const U8 = (length, seed) => ({ dtype: "U8", shape: [length], bytes: pattern(length, seed) });
const LENGTH = 100_000;
const names = Array.from({ length: 12 }, (_, i) => `t${i}`);
const tensors = { pad: U8(40_000, 99), ...Object.fromEntries(names.map((name, i) => [name, U8(LENGTH, i + 1)])) };
const file = safetensors(tensors);
const same = (tensor) => assert.ok(Buffer.from(tensor.bytes).equals(Buffer.from(tensors[tensor.name].bytes)), tensor.name);

/**
 * Returns a source whose reads after opening wait for `release`. `active` are the reads in flight. Its reads are not
 * merged.
 */
function gated() {
  const reads = [];
  let hold = false;
  return {
    reads,
    hold: () => (hold = true),
    active: () => reads.filter(({ over }) => !over),
    size: () => file.length,
    read: (offset, length, { signal } = {}) => {
      const bytes = new Uint8Array(file.subarray(offset, offset + length));
      if (!hold) return Promise.resolve(bytes);
      return new Promise((resolve, reject) => {
        const read = { over: false, release: () => ((read.over = true), resolve(bytes)), fail: (error) => ((read.over = true), reject(error)) };
        signal?.addEventListener("abort", () => read.over || ((read.aborted = true), read.fail(signal.reason)), { once: true });
        reads.push(read);
      });
    },
  };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

async function gatedModel() {
  const source = gated();
  const model = await open(source, { coalesce: false });
  source.hold();
  return { source, model };
}

test("tensors come in the order asked for, some of them twice, and all without names", async () => {
  const model = await open(new Uint8Array(file));
  const order = ["t7", "t1", "t1", "t11", "t0"];
  const seen = [];
  for await (const tensor of model.stream(order)) {
    same(tensor);
    seen.push(tensor.name);
  }
  assert.deepEqual(seen, order);
  const all = [];
  for await (const { name } of model.stream()) all.push(name);
  assert.deepEqual(all, Object.keys(tensors));
  for await (const _ of model.stream([])) assert.fail("nothing was asked for");
});

test("no more is under way than readAheadBytes, and no less than fits", async () => {
  const { source, model } = await gatedModel();
  // Stored and decoded bytes both count, so this limit allows four tensors.
  const stream = model.stream(names, { readAheadBytes: 8 * LENGTH });
  const taken = [];
  let most = 0;
  const consumer = (async () => {
    for await (const tensor of stream) taken.push(tensor.name);
  })();
  while (taken.length < names.length) {
    await turn();
    most = Math.max(most, source.active().length);
    assert.ok(source.reads.length <= taken.length + 4, "what was read is at most four ahead of what was taken");
    source.active()[0]?.release();
  }
  await consumer;
  assert.equal(most, 4);
  assert.deepEqual(taken, names);
});

test("a tensor above the bound is read alone; a bound that is none is refused", async () => {
  const { source, model } = await gatedModel();
  const stream = model.stream(names.slice(0, 3), { readAheadBytes: 0 });
  for (let i = 0; i < 3; i++) {
    const next = stream.next();
    await turn();
    assert.equal(source.active().length, 1);
    source.active()[0].release();
    assert.equal((await next).value.name, names[i]);
  }
  assert.equal((await stream.next()).done, true);
  for (const readAheadBytes of [-1, Number.NaN, "much"]) await assert.rejects(model.stream(names, { readAheadBytes }).next(), { name: "InvalidInputError" });
});

test("leaving the loop stops the reads under way", async () => {
  const { source, model } = await gatedModel();
  for await (const tensor of (setImmediate(() => source.reads[0].release()), model.stream(names))) {
    assert.equal(tensor.name, "t0");
    break;
  }
  assert.equal(source.reads.length, 12);
  assert.ok(source.reads.slice(1).every(({ aborted }) => aborted));
});

test("a failure ends all other reads; what came before it in the order is handed out", async () => {
  const { source, model } = await gatedModel();
  const stream = model.stream(names);
  const first = stream.next();
  await turn();
  const failure = new Error("the disk is gone");
  source.reads[0].release();
  source.reads[1].release();
  await turn();
  source.reads[3].fail(failure);
  assert.equal((await first).value.name, "t0");
  assert.equal((await stream.next()).value.name, "t1");
  await assert.rejects(stream.next(), (error) => error === failure);
  assert.ok(source.reads.slice(4).every(({ aborted }) => aborted));
  assert.equal((await stream.next()).done, true);
});

test("an abort ends the stream with its reason, also between two tensors", async () => {
  for (const between of [false, true]) {
    const { source, model } = await gatedModel();
    const stop = new AbortController();
    const stream = model.stream(names, { signal: stop.signal });
    const first = stream.next();
    await turn();
    const reason = new Error("enough");
    if (between) {
      source.reads[0].release();
      source.reads[1].release();
      await first;
    }
    stop.abort(reason);
    await assert.rejects(between ? stream.next() : first, (error) => error === reason);
    assert.deepEqual(source.active(), []);
  }
});

test("closing the model ends the stream; an unknown name is refused before anything is read", async () => {
  const { source, model } = await gatedModel();
  await assert.rejects(model.stream(["t0", "t99"]).next(), { name: "TensorNotFoundError", tensor: "t99" });
  assert.equal(source.reads.length, 0);
  const next = model.stream(names).next();
  await turn();
  model.close();
  await assert.rejects(next, { code: "closed" });
  assert.deepEqual(source.active(), []);
});

test("over HTTP neighbours are one request, and progress adds up over all", async () => {
  const server = await startFaultServer({ bytes: file, etag: '"1"' });
  try {
    const model = await open(server.url);
    const before = model.stats.requests;
    const heard = [];
    for await (const tensor of model.stream(names, { onProgress: (progress) => heard.push(progress) })) same(tensor);
    assert.equal(model.stats.requests - before, 1);
    assert.deepEqual(heard.at(-1), { stage: "stream", loadedBytes: 12 * LENGTH, totalBytes: 12 * LENGTH });
    // The limit allows four tensors, and requests are sent whenever half of it is free.
    const bounded = model.stats.requests;
    for await (const tensor of model.stream(names, { readAheadBytes: 8 * LENGTH })) same(tensor);
    assert.ok(model.stats.requests - bounded <= 6, `${model.stats.requests - bounded} requests`);
  } finally {
    await server.stop();
  }
});

test("an error of the server reaches the loop", async () => {
  const file = version();
  const server = await startFaultServer(file);
  try {
    const model = await open(server.url);
    server.always = status(404);
    await assert.rejects(async () => {
      for await (const _ of model.stream(["a", "d"])) assert.fail("nothing can be read");
    }, { name: "HttpError", status: 404 });
  } finally {
    await server.stop();
  }
});
