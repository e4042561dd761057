/** Plain safetensors files can be read without WebAssembly. */

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { safetensors } from "../support/checkpoint.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { vectorPath } from "../support/vectors.mjs";

const scratch = scratchFolder();
const numbers = Float32Array.from({ length: 24 }, (_, i) => i / 4);
const tensor = (dtype, array, shape) => ({ dtype, shape, bytes: new Uint8Array(array.buffer) });
const FIRST = { a: tensor("F32", numbers, [6, 4]), tail: tensor("I16", Int16Array.of(1, -2), [2]) };
const SECOND = { b: tensor("U8", Uint8Array.from([7, 8, 9]), [3]), empty: tensor("BF16", new Uint16Array(0), [0, 5]) };
const file = safetensors(FIRST);
const path = join(scratch, "m-1.safetensors");
let zstn;
let server;
let origin;

before(async () => {
  writeFileSync(path, file);
  writeFileSync(join(scratch, "m-2.safetensors"), safetensors(SECOND));
  const weight_map = { a: "m-1.safetensors", tail: "m-1.safetensors", b: "m-2.safetensors", empty: "m-2.safetensors" };
  writeFileSync(join(scratch, "model.safetensors.index.json"), JSON.stringify({ metadata: { total_size: 103 }, weight_map }));
  server = createServer((request, response) => {
    const [, begin, end] = /bytes=(\d+)-(\d+)/.exec(request.headers.range ?? "") ?? [];
    if (begin === undefined) return response.end(file);
    const part = file.subarray(Number(begin), Number(end) + 1);
    response.writeHead(206, { "content-range": `bytes ${begin}-${Number(begin) + part.length - 1}/${file.length}` }).end(part);
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  origin = `http://127.0.0.1:${server.address().port}`;
  // Node's own fetch has a parser in WebAssembly, which is compiled at the first request.
  await (await fetch(origin)).arrayBuffer();
  Object.defineProperty(globalThis, "WebAssembly", {
    get() {
      throw new Error("There is no WebAssembly here.");
    },
  });
  zstn = await import("zstn");
});

after(() => server.close());

const INPUTS = {
  bytes: () => new Uint8Array(file),
  "an ArrayBuffer": () => new Uint8Array(file).buffer,
  "a Blob": () => new Blob([file]),
  "a File": () => new File([file], "m.safetensors"),
  "a path": () => path,
  "a file: address": () => pathToFileURL(path),
  "an address": () => `${origin}/m.safetensors`,
  "a source": () => ({ size: () => file.length, read: async (offset, length) => file.subarray(offset, offset + length) }),
};

for (const [name, input] of Object.entries(INPUTS)) {
  test(`${name}: listed, read, read by rows, streamed`, async () => {
    const model = await zstn.open(input());
    assert.equal(model.kind, "safetensors");
    assert.equal(model.originalSize, file.length);
    assert.deepEqual([...model.tensors.values()].map(({ name, dtype, shape, byteLength }) => [name, dtype, shape, byteLength]), [["a", "F32", [6, 4], 96], ["tail", "I16", [2], 4]]);
    assert.deepEqual((await model.tensor("a")).data, numbers);
    const rows = await model.tensor("a", { rows: [1, 3], into: new Float32Array(8) });
    assert.deepEqual(rows.toFloat32(), numbers.slice(4, 12));
    assert.equal((await model.plan("a", { rows: [1, 3] })).bytes, 32);
    assert.equal(await model.planes("a"), undefined);
    const streamed = [];
    for await (const { name, bytes } of model.stream()) streamed.push([name, Buffer.from(bytes)]);
    assert.deepEqual(streamed, Object.entries(FIRST).map(([name, { bytes }]) => [name, Buffer.from(bytes)]));
    const blob = model.asSafetensorsBlob();
    assert.ok(blob.isOriginal);
    assert.ok(file.equals(await blob.bytes()));
    model.close();
    await assert.rejects(model.tensor("a"), { code: "closed" });
  });
}

test("bytes of the caller are copied, not handed out", async () => {
  const bytes = new Uint8Array(file);
  const model = await zstn.open(bytes);
  (await model.tensor("a")).data.fill(0);
  assert.ok(file.equals(bytes));
});

test("several files behind an index are one model, and one file", async () => {
  const model = await zstn.open(join(scratch, "model.safetensors.index.json"));
  assert.deepEqual([...model.tensors.keys()], ["a", "tail", "b", "empty"]);
  assert.equal(model.fileCount, 2);
  assert.deepEqual((await model.tensor("b")).data, Uint8Array.of(7, 8, 9));
  const blob = model.asSafetensorsBlob();
  assert.equal(blob.isOriginal, false);
  const whole = await zstn.open(await blob.bytes());
  assert.deepEqual((await whole.tensor("a")).data, numbers);
  assert.deepEqual((await whole.tensor("b")).data, Uint8Array.of(7, 8, 9));
});

test("what is not a model is refused, and a delta's option is", async () => {
  await assert.rejects(zstn.open(new Blob(["<!doctype html><html>"])), { code: "malformed", message: /web page/ });
  await assert.rejects(zstn.open(file.subarray(0, file.length - 1)), { code: "malformed", rule: "safetensors.truncated" });
  await assert.rejects(zstn.open(file, { base: file }), { code: "invalid_input", message: /not a delta/ });
});

test("a packed file is listed without it, and its tensors do need it", async () => {
  const model = await zstn.open(vectorPath("zstn", "all_dtypes.zstn"));
  const { name } = [...model.tensors.values()].find(({ byteLength }) => byteLength > 0);
  await assert.rejects(model.tensor(name), { code: "core" });
});
