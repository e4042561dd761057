/** Packing in Node gives the same bytes as in Rust, from every input, into a Blob or a stream. */

import assert from "node:assert/strict";
import { createWriteStream, openAsBlob, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Writable } from "node:stream";
import { test } from "node:test";
import { open, pack } from "zstn";
import { safetensors, writeLanguageModel } from "../support/checkpoint.mjs";
import { unpack } from "../support/cli.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { startServer, answerRange } from "../support/server.mjs";
import { goodContainers, sha256, vectorPath } from "../support/vectors.mjs";

const scratch = scratchFolder();
const digests = JSON.parse(readFileSync(vectorPath(".", "pure-pack.json"), "utf8"));
const bytesOf = async (blob) => new Uint8Array(await blob.arrayBuffer());

for (const effort of ["fast", "balanced", "max"]) {
  test(`the bytes are those of Rust, effort ${effort}`, async () => {
    const known = digests[effort];
    assert.deepEqual(goodContainers.map(({ name }) => name).sort(), Object.keys(known).sort());
    for (const { name } of goodContainers) {
      const { blob, size } = await pack(vectorPath("zstn", `${name}.safetensors`), { effort, allowTruncated: true });
      assert.equal(size, blob.size);
      assert.equal(sha256(await bytesOf(blob)), known[name], name);
    }
  });
}

const model = join(scratch, "model.safetensors");
const tensors = await writeLanguageModel(model);
const original = readFileSync(model);

test("a model is packed in memory for a tensor, and comes back by name and whole", async () => {
  const heard = [];
  const packed = await pack(model, { onProgress: (progress) => heard.push(progress) });
  assert.equal(packed.originalSize, original.length);
  assert.ok(packed.indexed && packed.size < original.length * 0.75, `${packed.size}`);
  assert.deepEqual(packed.tensors.map(({ name }) => name).sort(), Object.keys(tensors).sort());

  const opened = await open(packed.blob);
  for (const { name, byteLength, storedLength, aliasOf } of packed.tensors) {
    const info = opened.tensors.get(name);
    assert.deepEqual({ byteLength, storedLength, aliasOf }, { byteLength: info.byteLength, storedLength: info.storedLength, aliasOf: info.aliasOf });
    assert.ok(Buffer.from((await opened.tensor(name)).bytes).equals(tensors[name].bytes), name);
  }
  // Both embeddings have the same bytes.
  assert.deepEqual(packed.tensors.filter(({ aliasOf }) => aliasOf).map(({ name, aliasOf }) => [name, aliasOf]), [["transformer.wte.weight", "lm_head.weight"]]);

  assert.ok(heard.every(({ stage, totalBytes }) => stage === "pack" && totalBytes === original.length));
  assert.equal(heard.at(-1).loadedBytes, original.length);
  assert.ok(new Set(heard.map(({ tensor }) => tensor)).has("transformer.h.3.mlp.c_fc.weight"));

  writeFileSync(join(scratch, "model.zstn"), await bytesOf(packed.blob));
  await unpack(join(scratch, "model.zstn"), join(scratch, "restored.safetensors"));
  assert.ok(readFileSync(join(scratch, "restored.safetensors")).equals(original), "the command line restores it");
});

test("a SHA-256 that is given is stored as a claim, and compared when the file is restored", async () => {
  const plain = await bytesOf((await pack(model)).blob);
  const digest = sha256(original);
  const { blob, size } = await pack(model, { sha256: digest.toUpperCase() });
  assert.equal(size, plain.length + 12);
  const claimed = join(scratch, "claimed.zstn");
  writeFileSync(claimed, await bytesOf(blob));
  await unpack(claimed, join(scratch, "claimed.safetensors"));
  assert.ok(readFileSync(join(scratch, "claimed.safetensors")).equals(original));

  const wrong = await pack(model, { sha256: "ab".repeat(32) });
  writeFileSync(claimed, await bytesOf(wrong.blob));
  await assert.rejects(unpack(claimed, join(scratch, "wrong.safetensors")), ({ message }) => message.includes(digest) && message.includes("ab".repeat(32)));
  const opened = await open(wrong.blob);
  for (const [name, { bytes }] of Object.entries(tensors)) assert.ok(Buffer.from((await opened.tensor(name)).bytes).equals(bytes), name);
});

test("a SHA-256 that has no place, or is none, is refused", async () => {
  for (const digest of ["", "ab", "xy".repeat(32), `sha256:${"ab".repeat(32)}`]) await assert.rejects(pack(model, { sha256: digest }), { code: "invalid_input", message: /64 hexadecimal digits/ });
  await assert.rejects(pack(model, { base: model, sha256: sha256(original) }), { code: "invalid_input", message: /leave it out/ });
  // This file is stored as one frame, which has no field for the digest, so the digest is compared immediately.
  const odd = vectorPath("zstn", `${goodContainers.find(({ official }) => !official.valid).name}.safetensors`);
  const same = await pack(odd, { allowTruncated: true, sha256: sha256(readFileSync(odd)) });
  assert.deepEqual(await bytesOf(same.blob), await bytesOf((await pack(odd, { allowTruncated: true })).blob));
  await assert.rejects(pack(odd, { allowTruncated: true, sha256: "ab".repeat(32) }), { code: "invalid_input", message: new RegExp(sha256(readFileSync(odd))) });
});

test("files that break the rules are kept whole and restored", async () => {
  let count = 0;
  for (const { name } of goodContainers.filter(({ official }) => !official.valid)) {
    const source = vectorPath("zstn", `${name}.safetensors`);
    const { blob, indexed, tensors } = await pack(source, { allowTruncated: true });
    assert.deepEqual([indexed, tensors], [false, []], name);
    writeFileSync(join(scratch, "odd.zstn"), await bytesOf(blob));
    await unpack(join(scratch, "odd.zstn"), join(scratch, "odd"));
    assert.ok(readFileSync(join(scratch, "odd")).equals(readFileSync(source)), name);
    count += 1;
  }
  assert.ok(count > 5);
});

const small = goodContainers.find(({ name }) => name === "all_dtypes");
const smallPath = vectorPath("zstn", small.original.file);
const smallBytes = new Uint8Array(readFileSync(smallPath));

test("everything that can be opened can be packed", async () => {
  const server = await startServer((request, response) => answerRange(request, response, Buffer.from(smallBytes)));
  try {
    const sources = [
      smallBytes,
      smallBytes.buffer,
      new Blob([smallBytes]),
      new File([smallBytes], "model.safetensors"),
      await openAsBlob(smallPath),
      { size: () => smallBytes.length, read: async (offset, length) => smallBytes.slice(offset, offset + length) },
      new URL("model.safetensors", server.url),
    ];
    for (const source of sources) {
      const { blob } = await pack(source);
      assert.equal(sha256(await bytesOf(blob)), digests.balanced.all_dtypes);
    }
    assert.equal(server.requests.length, 1, "a small file takes one request");
  } finally {
    await server.stop();
  }
});

test("into a stream, which gets the same bytes and is closed", async () => {
  const file = join(scratch, "streamed.zstn");
  const report = await pack(model, { to: Writable.toWeb(createWriteStream(file)) });
  assert.equal(report.blob, undefined);
  assert.equal(readFileSync(file).length, report.size);
  assert.equal(sha256(readFileSync(file)), sha256(await bytesOf((await pack(model)).blob)));
});

test("a stream of Node has to be converted", async () => {
  const to = new Writable({ write: (_chunk, _encoding, done) => done() });
  await assert.rejects(pack(smallPath, { to }), { code: "invalid_input", message: /WritableStream.*Writable\.toWeb/ });
  const { size } = await pack(smallPath, { to: Writable.toWeb(to) });
  assert.ok(size > 0);
});

test("a slow stream is waited for", async () => {
  let [underWay, most] = [0, 0];
  const to = new WritableStream({
    async write() {
      most = Math.max(most, ++underWay);
      await new Promise((resolve) => setTimeout(resolve, 2));
      underWay -= 1;
    },
  });
  await pack(smallPath, { to });
  assert.equal(most, 1);
  assert.equal(to.locked, false);
});

test("an aborted call says why, and the stream hears of it", async () => {
  let heard;
  const to = new WritableStream({ abort: (reason) => void (heard = reason) });
  const mine = new Error("changed my mind");
  const stop = new AbortController();
  const onProgress = ({ loadedBytes }) => loadedBytes > 1e6 && stop.abort(mine);
  await assert.rejects(pack(model, { to, signal: stop.signal, onProgress }), (error) => error === mine);
  assert.equal(heard, mine);
  await assert.rejects(pack(model, { signal: AbortSignal.abort(mine) }), (error) => error === mine);
});

for (const extended of [false, true]) {
  test(`an abort does not wait for a stream that takes no more, and ends it (extended: ${extended})`, async () => {
    const stop = new AbortController();
    const calls = [];
    let finish;
    const to = new WritableStream({
      write: () => {
        calls.push("write");
        stop.abort();
        return new Promise((resolve) => (finish = resolve));
      },
      close: () => void calls.push("close"),
      abort: () => void calls.push("abort"),
    });
    await assert.rejects(pack(smallPath, { to, extended, signal: stop.signal }), { name: "AbortError" });
    assert.deepEqual(calls, ["write"]);
    finish();
    await new Promise((resolve) => setTimeout(resolve));
    assert.deepEqual(calls, ["write", "abort"]);
  });

  test(`an abort during the last write keeps the stream from being closed (extended: ${extended})`, async () => {
    let writes = 0;
    await pack(smallPath, { extended, to: new WritableStream({ write: () => void (writes += 1) }) });
    const stop = new AbortController();
    const calls = [];
    const to = new WritableStream({
      write: () => {
        calls.push("write");
        if (calls.length === writes) stop.abort();
      },
      close: () => void calls.push("close"),
      abort: () => void calls.push("abort"),
    });
    await assert.rejects(pack(smallPath, { to, extended, signal: stop.signal }), { name: "AbortError" });
    assert.deepEqual(calls, [...Array(writes).fill("write"), "abort"]);
  });
}

test("a timer can stop what never waits for anything", async () => {
  let readBytes = 0;
  const options = { effort: "max", signal: AbortSignal.timeout(10), onProgress: ({ loadedBytes }) => (readBytes = loadedBytes) };
  await assert.rejects(pack(new Uint8Array(original), options), { name: "TimeoutError" });
  assert.ok(readBytes < original.length, "it was stopped on the way");
});

test("what the stream or the source throws comes through untouched", async () => {
  const mine = new TypeError("disk full");
  await assert.rejects(pack(smallPath, { to: new WritableStream({ write: () => Promise.reject(mine) }) }), (error) => error === mine);
  await assert.rejects(pack({ size: () => 100, read: () => Promise.reject(mine) }), (error) => error === mine);
});

test("tensors without bytes, and none at all", async () => {
  const empty = safetensors({ a: { dtype: "F32", shape: [0, 3], bytes: new Uint8Array() }, b: { dtype: "U8", shape: [0], bytes: new Uint8Array() } });
  const { tensors, blob } = await pack(empty);
  assert.deepEqual(tensors.map(({ name, byteLength, aliasOf }) => [name, byteLength, aliasOf]), [["a", 0, undefined], ["b", 0, "a"]]);
  assert.equal((await open(blob)).tensors.size, 2);
  assert.equal((await open((await pack(safetensors({}))).blob)).tensors.size, 0);
});

const text = (content) => new TextEncoder().encode(content);
for (const [what, source, expected] of [
  ["a web page", text("<!DOCTYPE html><html><body>Sign in</body></html>"), { code: "malformed", message: /web page/ }],
  ["a container", vectorPath("zstn", small.container.file), { code: "invalid_input", message: /already packed/ }],
  ["a delta", vectorPath("zstn", "md_identical.z4dm"), { code: "invalid_input", message: /already packed/ }],
  ["a file that is cut off", smallBytes.slice(0, 200), { code: "malformed", rule: "safetensors.header_length" }],
  ["a download that ended early", smallBytes.slice(0, -1), { code: "malformed", rule: "safetensors.truncated", message: /cut off/ }],
  ["a number", 7, { code: "invalid_input" }],
]) {
  test(`${what} cannot be packed`, async () => {
    await assert.rejects(pack(source), expected);
  });
}

test("a file that ends early is packed when asked for, and restored as it is", async () => {
  const cut = smallBytes.slice(0, -1);
  const { blob, indexed } = await pack(cut, { allowTruncated: true });
  assert.equal(indexed, false);
  writeFileSync(join(scratch, "cut.zstn"), await bytesOf(blob));
  await unpack(join(scratch, "cut.zstn"), join(scratch, "cut"));
  assert.ok(readFileSync(join(scratch, "cut")).equals(cut));
});

test("an effort that does not exist", async () => {
  await assert.rejects(pack(smallPath, { effort: "heroic" }), { name: "InvalidInputError", message: /heroic/ });
});
