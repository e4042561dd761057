/** Every input that Node can open, and its failures. */

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { openAsBlob } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { open, pack } from "zstn";
import { scratchFolder } from "../support/scratch.mjs";
import { cost } from "../support/traffic.mjs";
import { goodContainers, sha256, vectorPath } from "../support/vectors.mjs";

const container = goodContainers.find(({ name }) => name === "all_dtypes");
const path = vectorPath("zstn", container.container.file);
const bytes = readFileSync(path);
const scratch = scratchFolder();

const sources = {
  "a path": path,
  "a file: address": pathToFileURL(path),
  "a file: address as text": pathToFileURL(path).href,
  "a Uint8Array": new Uint8Array(bytes),
  "a Uint8Array inside a larger buffer": new Uint8Array([9, 9, 9, ...bytes, 9]).subarray(3, 3 + bytes.length),
  "a Buffer": bytes,
  "an ArrayBuffer": new Uint8Array(bytes).buffer,
  "a Blob": new Blob([bytes]),
  "a File": new File([bytes], "model.zstn"),
  "a Blob of a file on disk": await openAsBlob(path),
  "an object with byteLength and slice, as promises of buffers": { byteLength: bytes.length, slice: async (start, end) => new Uint8Array(bytes).buffer.slice(start, end) },
  "an object with byteLength and slice, as Uint8Arrays": { byteLength: bytes.length, slice: (start, end) => new Uint8Array(bytes.subarray(start, end)) },
  "a source of one's own": { size: () => bytes.length, read: async (offset, length) => new Uint8Array(bytes.subarray(offset, offset + length)) },
};

for (const [what, source] of Object.entries(sources)) {
  test(`open reads ${what}`, async () => {
    const model = await open(source);
    assert.equal(model.size, bytes.length);
    assert.equal(model.tensors.size, 22);
    for (const expected of container.tensors) {
      assert.equal(sha256((await model.tensor(expected.name)).bytes), expected.sha256, expected.name);
    }
    const last = [...model.tensors.values()].reduce((a, b) => (b.storedLength > a.storedLength ? b : a));
    const before = { ...model.stats };
    await model.tensor(last.name);
    assert.deepEqual(cost(model.stats), { requests: before.requests + 1, roundTrips: before.roundTrips + 1, bytesFetched: before.bytesFetched + last.storedLength });
  });
}

test("a small file is known after one read", async () => {
  const model = await open(path);
  assert.deepEqual(cost(model.stats), { requests: 1, roundTrips: 1, bytesFetched: bytes.length });
});

test("typed arrays, shapes and metadata", async () => {
  const model = await open(vectorPath("zstn", "metadata.zstn"));
  const original = await open(vectorPath("zstn", "metadata.safetensors"));
  assert.ok(Object.keys(model.metadata).length > 2);
  assert.deepEqual(model.metadata, original.metadata);
  const floats = await (await open(path)).tensor("t.f32");
  assert.ok(floats.data instanceof Float32Array);
  assert.deepEqual(floats.shape, [5, 20]);
  assert.equal(floats.data.length, 100);
});

test("an unknown name is answered with names that exist", async () => {
  const model = await open(path);
  await assert.rejects(model.tensor("t.f23"), (error) => {
    assert.equal(error.name, "TensorNotFoundError");
    assert.equal(error.code, "not_found");
    assert.equal(error.tensor, "t.f23");
    assert.ok(error.suggestions.every((name) => model.tensors.has(name)) && error.suggestions.length > 0);
    assert.match(error.message, /"t\.f23".*Did you mean t\./);
    return true;
  });
});

test("a closed model reads nothing more, and closing twice is fine", async () => {
  const model = await open(path);
  const underWay = model.tensor("t.f32");
  model.close();
  model.close();
  await assert.rejects(underWay, { name: "ModelClosedError", code: "closed" });
  await assert.rejects(model.tensor("t.f32"), { name: "ModelClosedError" });
});

test("a file that is not there", async () => {
  await assert.rejects(open(join(scratch, "nothing.zstn")), { name: "ReadError", code: "read", message: /nothing\.zstn: it does not exist\.$/ });
});

test("a folder", async () => {
  const folder = join(scratch, "folder.zstn");
  mkdirSync(folder);
  await assert.rejects(open(folder), { name: "ReadError", message: /it is a directory/ });
});

test("a file changed between opening and reading", async () => {
  const file = join(scratch, "changing.zstn");
  writeFileSync(file, bytes);
  const model = await open(file);
  writeFileSync(file, Buffer.concat([bytes, bytes]));
  await assert.rejects(model.tensor("t.f32"), { name: "SourceChangedError", code: "changed", message: /changing\.zstn/ });
});

test("an error of one's own source comes through untouched", async () => {
  const mine = new TypeError("tape drive on fire");
  await assert.rejects(open({ size: () => 100, read: () => Promise.reject(mine) }), (error) => error === mine);
});

test("slices of a wrong length, and errors of one's own slice", async () => {
  await assert.rejects(open({ byteLength: 500, slice: () => new Uint8Array(3) }), { code: "truncated" });
  const mine = new TypeError("tape drive on fire");
  await assert.rejects(open({ byteLength: 500, slice: async () => Promise.reject(mine) }), (error) => error === mine);
});

test("pack takes what has byteLength and slice", async () => {
  const file = readFileSync(vectorPath("zstn", "metadata.safetensors"));
  const { blob } = await pack({ byteLength: file.length, slice: (start, end) => file.subarray(start, end) });
  assert.deepEqual(await blob.bytes(), await (await pack(file)).blob.bytes());
});

test("when one of several reads fails, the others are stopped", async () => {
  // The header does not fit into the first read, so two ranges are missing.
  const long = readFileSync(vectorPath("zstn", "name_65535.zstn"));
  const stopped = [];
  const read = async (offset, length, { signal }) => {
    if (offset === 0) return new Uint8Array(long.subarray(0, length));
    if (stopped.length === 0) {
      stopped.push(new Promise((resolve) => signal.addEventListener("abort", () => resolve(offset))));
      return new Promise(() => {});
    }
    throw new Error("this part is lost");
  };
  await assert.rejects(open({ size: () => long.length, read }, { coalesce: false }), { message: "this part is lost" });
  assert.ok((await stopped[0]) > 0);
});

for (const [what, source] of Object.entries({ undefined: undefined, "a number": 7, "an object without read": { size: () => 1 }, "a typed array of other elements": new Float32Array(8), "a list": [1, 2], "an object without slice": { byteLength: 5 }, "slices of another type": { byteLength: 500, slice: () => "text" }, "a mailto: address": new URL("mailto:a@b.c") })) {
  test(`open refuses ${what}`, async () => {
    await assert.rejects(open(source), { name: "InvalidInputError", code: "invalid_input" });
  });
}

for (const [what, text, message] of [
  ["a web page", "<!DOCTYPE html><html><body>Sign in</body></html>", /web page \(HTML\)/],
  ["a Git LFS pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", /Git LFS pointer/],
  ["nothing at all", "", /./],
  ["some other file", "PK\u0003\u0004 a zip archive, say, of some length", /./],
]) {
  test(`${what} is not a model, and says so`, async () => {
    await assert.rejects(open(new TextEncoder().encode(text)), { name: "FormatError", code: "malformed", message });
  });
}

test("progress adds up to what was announced", async () => {
  const heard = [];
  const model = await open(path, { onProgress: (progress) => heard.push(progress) });
  assert.deepEqual(heard.at(-1), { stage: "open", loadedBytes: bytes.length, totalBytes: bytes.length });
  heard.length = 0;
  await model.tensor("t.u64", { onProgress: (progress) => heard.push(progress) });
  const { storedLength } = model.tensors.get("t.u64");
  assert.deepEqual(heard.at(-1), { stage: "tensor", tensor: "t.u64", loadedBytes: storedLength, totalBytes: storedLength });
});
