/**
 * Packing against a base in Node gives the same bytes as in Rust, in whatever format the base is stored, into a Blob or
 * a stream.
 */

import assert from "node:assert/strict";
import { createWriteStream, openAsBlob, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Writable } from "node:stream";
import { after, before, test } from "node:test";
import { open, pack } from "zstn";
import { MIDDLE_TENSOR, safetensors, writeLanguageModel, xorshift } from "../support/checkpoint.mjs";
import { pack as packNatively, unpack } from "../support/cli.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { answerRange, startServer } from "../support/server.mjs";
import { goodDeltas, sha256, vectorPath } from "../support/vectors.mjs";

const digests = JSON.parse(readFileSync(vectorPath(".", "pure-delta.json"), "utf8"));
const bytesOf = async (blob) => new Uint8Array(await blob.arrayBuffer());
const vector = ({ file }) => vectorPath("zstn", file);

/** Returns a stream that collects its chunks. */
function collector() {
  const pieces = [];
  const to = new WritableStream({ write: (piece) => void pieces.push(piece.slice()) });
  return { to, bytes: () => Buffer.concat(pieces) };
}

for (const effort of ["fast", "balanced", "max"]) {
  test(`the bytes are those of Rust, effort ${effort}`, async () => {
    const known = digests[effort];
    assert.ok(Object.keys(known).length >= 20);
    for (const { name, base, target } of goodDeltas) {
      const packing = pack(vector(target), { base: vector(base), effort });
      if (known[name] === undefined) {
        await assert.rejects(packing, { name: "FormatError" }, name);
        continue;
      }
      const { blob, size, originalSize, indexed } = await packing;
      assert.deepEqual([size, originalSize, indexed], [blob.size, target.bytes, true], name);
      assert.equal(sha256(await bytesOf(blob)), known[name], name);
      const stream = collector();
      const report = await pack(vector(target), { base: vector(base), effort, to: stream.to });
      assert.equal(sha256(stream.bytes()), known[name], `${name}, into a stream`);
      assert.deepEqual([report.size, report.blob], [size, undefined]);
    }
  });
}

const scratch = scratchFolder();
const at = (name) => join(scratch, name);
const SAME_TENSOR = "transformer.h.1.mlp.c_fc.weight";
const NEW_TENSOR = "adapter.weight";
const files = {};
let tensors;
let tuned;
let expected;
let server;

/** Returns a fine-tune: one tensor slightly different, most unchanged, one new. */
function tune(tensors) {
  const bytes = Uint8Array.from(tensors[MIDDLE_TENSOR].bytes);
  for (let i = 0; i < bytes.length; i += 98) bytes[i] ^= 1;
  const added = tensors[SAME_TENSOR].bytes.subarray(0, 120_000);
  return { ...tensors, [MIDDLE_TENSOR]: { ...tensors[MIDDLE_TENSOR], bytes }, [NEW_TENSOR]: { dtype: "BF16", shape: [60_000], bytes: added } };
}

before(async () => {
  tensors = await writeLanguageModel(at("base.safetensors"));
  tuned = tune(tensors);
  const early = { ...tensors, [SAME_TENSOR]: { ...tensors[SAME_TENSOR], bytes: tensors[SAME_TENSOR].bytes.map((byte, i) => (i % 77 === 0 ? byte ^ 1 : byte)) } };
  writeFileSync(at("tuned.safetensors"), safetensors(tuned, { format: "pt" }));
  writeFileSync(at("early.safetensors"), safetensors(early));
  await packNatively(at("base.safetensors"), at("base.zstn"));
  await packNatively(at("base.safetensors"), at("base.z4dm"), { base: at("early.safetensors") });
  expected = sha256(await bytesOf((await pack(at("tuned.safetensors"), { base: at("base.safetensors") })).blob));
  for (const name of ["base.safetensors", "base.zstn", "tuned.safetensors"]) files[`/${name}`] = readFileSync(at(name));
  server = await startServer((request, response) => answerRange(request, response, files[request.url]));
});
after(() => server?.stop());

test("a fine-tune comes back from its delta: by name, as a file, and by the command line", async () => {
  const heard = [];
  const { blob, tensors: packed, size } = await pack(at("tuned.safetensors"), { base: at("base.safetensors"), onProgress: (progress) => heard.push(progress) });
  const originalBytes = files["/tuned.safetensors"].length;
  assert.ok(size < originalBytes / 50, `${size} bytes`);

  const model = await open(blob, { base: at("base.zstn") });
  assert.equal(model.kind, "z4dm");
  for (const { name, byteLength, storedLength, base } of packed) {
    const info = model.tensors.get(name);
    assert.deepEqual({ byteLength, storedLength, base }, { byteLength: info.byteLength, storedLength: info.storedLength, base: info.base }, name);
    assert.ok(Buffer.from((await model.tensor(name)).bytes).equals(tuned[name].bytes), name);
  }
  const kinds = Object.fromEntries(packed.map(({ name, base }) => [name, base]));
  assert.deepEqual([kinds[MIDDLE_TENSOR], kinds[SAME_TENSOR], kinds[NEW_TENSOR]], ["delta", "copy", undefined]);
  const file = model.asSafetensorsBlob();
  assert.ok(file.isOriginal && Buffer.from(await file.bytes()).equals(files["/tuned.safetensors"]), "the file itself");

  writeFileSync(at("tuned.z4dm"), await bytesOf(blob));
  await unpack(at("tuned.z4dm"), at("restored.safetensors"), { base: at("base.zstn") });
  assert.ok(readFileSync(at("restored.safetensors")).equals(files["/tuned.safetensors"]), "the command line restores it");

  const total = originalBytes + files["/base.safetensors"].length;
  assert.ok(heard.every(({ stage, totalBytes }) => stage === "pack" && totalBytes === total));
  assert.equal(heard.at(-1).loadedBytes, total, "every byte was read once");
  assert.ok(new Set(heard.map(({ tensor }) => tensor)).has(MIDDLE_TENSOR));
});

test("a base may be anything that can be opened, and the delta is the same", async () => {
  const early = at("early.safetensors");
  const bytes = new Uint8Array(files["/base.zstn"]);
  const models = await Promise.all([open(at("base.zstn")), open(at("base.safetensors")), open(at("base.z4dm"), { base: early })]);
  const bases = {
    "a packed file": at("base.zstn"),
    bytes,
    "an ArrayBuffer": bytes.buffer,
    "a Blob": new Blob([bytes]),
    "a File on disk": await openAsBlob(at("base.safetensors")),
    "a Source": { size: () => bytes.length, read: async (offset, length) => bytes.slice(offset, offset + length) },
    "the URL of a plain file": new URL("base.safetensors", server.url),
    "the URL of a packed file": `${server.url}base.zstn`,
    "an open packed model": models[0],
    "an open plain model": models[1],
    "an open delta": models[2],
  };
  for (const [what, base] of Object.entries(bases)) {
    assert.equal(sha256(await bytesOf((await pack(at("tuned.safetensors"), { base })).blob)), expected, what);
  }
  const stream = collector();
  await pack(at("tuned.safetensors"), { base: models[2], to: stream.to });
  assert.equal(sha256(stream.bytes()), expected, "a delta as the base, into a stream");
  for (const model of models) {
    assert.equal((await model.tensor(SAME_TENSOR)).bytes.byteLength, tensors[SAME_TENSOR].bytes.byteLength, "a model that was passed stays open");
    model.close();
  }
  await assert.rejects(pack(at("tuned.safetensors"), { base: models[0] }), { name: "ModelClosedError" });
});

test("into a stream, most of the base is read twice, and the sum was announced", async () => {
  const heard = [];
  const file = at("streamed.z4dm");
  const report = await pack(at("tuned.safetensors"), { base: at("base.safetensors"), to: Writable.toWeb(createWriteStream(file)), onProgress: (progress) => heard.push(progress) });
  assert.equal(sha256(readFileSync(file)), expected);
  assert.equal(report.size, readFileSync(file).length);
  const { loadedBytes, totalBytes } = heard.at(-1);
  assert.equal(loadedBytes, totalBytes);
  const twice = 2 * files["/base.safetensors"].length + files["/tuned.safetensors"].length;
  assert.ok(loadedBytes <= twice && loadedBytes > twice - 65536, `${loadedBytes} of ${twice}`);
});

test("tensors in another order than the base's", async () => {
  const names = Object.keys(tensors).reverse();
  const reversed = safetensors(Object.fromEntries(names.map((name) => [name, tuned[name]])));
  const { blob } = await pack(reversed, { base: at("base.safetensors") });
  const stream = collector();
  await pack(reversed, { base: at("base.zstn"), to: stream.to });
  assert.ok(stream.bytes().equals(Buffer.from(await bytesOf(blob))));
  const model = await open(blob, { base: at("base.safetensors") });
  assert.ok(Buffer.from(await model.asSafetensorsBlob().bytes()).equals(reversed));
});

test("what the command line packs has the same tensors and kinds", async () => {
  await packNatively(at("tuned.safetensors"), at("native.z4dm"), { base: at("base.safetensors") });
  const [ours, natively] = await Promise.all([pack(at("tuned.safetensors"), { base: at("base.safetensors") }), open(at("native.z4dm"), { base: at("base.safetensors") })]);
  const kinds = [...natively.tensors.values()].map(({ name, base }) => [name, base]);
  assert.deepEqual(ours.tensors.map(({ name, base }) => [name, base]), kinds);
  assert.ok(Math.abs(ours.size - natively.size) < natively.size / 50, `${ours.size} and ${natively.size} bytes`);
});

test("where nothing is left to choose, the command line writes the same bytes", async () => {
  const random = xorshift(5);
  const noise = (length) => ({ dtype: "U8", shape: [length], bytes: Uint8Array.from({ length }, random) });
  const [kept, old, now, added] = [noise(70_000), noise(9000), noise(9000), noise(5000)];
  writeFileSync(at("noise.safetensors"), safetensors({ kept, changed: now, added }, { format: "pt" }));
  writeFileSync(at("noise-base.safetensors"), safetensors({ changed: old, kept }));
  await packNatively(at("noise.safetensors"), at("noise.z4dm"), { base: at("noise-base.safetensors") });
  const { blob } = await pack(at("noise.safetensors"), { base: at("noise-base.safetensors") });
  assert.ok(readFileSync(at("noise.z4dm")).equals(await bytesOf(blob)));
});

test("over HTTP, each file is read once, and the token only goes where it was given for", async () => {
  const tokens = [];
  const handler = (request, response) => {
    tokens.push([request.url, request.headers.authorization]);
    answerRange(request, response, files[request.url]);
  };
  const [one, two] = await Promise.all([startServer(handler), startServer(handler)]);
  try {
    const { blob } = await pack(`${one.url}tuned.safetensors`, { base: `${one.url}base.zstn`, token: "t" });
    assert.equal(sha256(await bytesOf(blob)), expected);
    assert.ok(tokens.every(([, token]) => token === "Bearer t"), "the same server");
    tokens.length = 0;
    await pack(`${one.url}tuned.safetensors`, { base: `${two.url}base.safetensors`, token: "t" });
    for (const [url, token] of tokens) assert.equal(token, url === "/tuned.safetensors" ? "Bearer t" : undefined, url);
    const records = Object.keys(tuned).length;
    assert.ok(tokens.length <= 2 * records + 4, `${tokens.length} requests for ${records} tensors`);
  } finally {
    await Promise.all([one.stop(), two.stop()]);
  }
});

test("an aborted call says why, the stream hears of it, and nothing more is read", async () => {
  const mine = new Error("changed my mind");
  for (const base of [at("base.safetensors"), `${server.url}base.zstn`]) {
    let heard;
    const to = new WritableStream({ abort: (reason) => void (heard = reason) });
    const stop = new AbortController();
    const onProgress = ({ loadedBytes }) => loadedBytes > 2e6 && stop.abort(mine);
    await assert.rejects(pack(at("tuned.safetensors"), { base, to, signal: stop.signal, onProgress }), (error) => error === mine);
    assert.equal(heard, mine);
    const before = server.requests.length;
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal(server.requests.length, before);
  }
  await assert.rejects(pack(at("tuned.safetensors"), { base: at("base.zstn"), signal: AbortSignal.abort(mine) }), (error) => error === mine);
  // Loading the module is the only step that waits here, so only the signal can end the call.
  const model = await open(at("base.safetensors"));
  const stop = new AbortController();
  const packing = pack(readFileSync(at("tuned.safetensors")), { base: model, signal: stop.signal });
  stop.abort(mine);
  await assert.rejects(packing, (error) => error === mine);
  await model.close();
});

test("what a base or a stream throws comes through untouched", async () => {
  const mine = new TypeError("unplugged");
  const size = files["/base.safetensors"].length;
  const read = async (offset, length) => (offset > 1e6 ? Promise.reject(mine) : files["/base.safetensors"].subarray(offset, offset + length));
  await assert.rejects(pack(at("tuned.safetensors"), { base: { size: () => size, read } }), (error) => error === mine);
  await assert.rejects(pack(at("tuned.safetensors"), { base: { size: () => Promise.reject(mine), read } }), (error) => error === mine);
  await assert.rejects(pack(at("tuned.safetensors"), { base: at("base.safetensors"), to: new WritableStream({ write: () => Promise.reject(mine) }) }), (error) => error === mine);
});

test("it needs memory for tensors, not for files", async () => {
  // No read is longer than the longest tensor, or than a chunk of the base that is only digested.
  let longest = 0;
  const source = (bytes) => ({ size: () => bytes.length, read: async (offset, length) => ((longest = Math.max(longest, length)), bytes.subarray(offset, offset + length)) });
  const big = Object.fromEntries(Array.from({ length: 24 }, (_, i) => [`t${i}`, { dtype: "U8", shape: [3 << 20], bytes: new Uint8Array(3 << 20).fill(i) }]));
  const base = safetensors(big);
  const stream = collector();
  await pack(source(safetensors({ t3: big.t3, own: { ...big.t0, bytes: big.t7.bytes } })), { base: source(base), to: stream.to });
  assert.ok(longest <= 16 << 20 && longest < base.length / 4, `${longest} bytes`);
});

const text = (content) => new TextEncoder().encode(content);
const small = safetensors({ a: { dtype: "U8", shape: [4], bytes: Uint8Array.of(1, 2, 3, 4) } });

test("tensors without bytes, and none at all, on either side", async () => {
  const empty = safetensors({ a: { dtype: "F32", shape: [0, 3], bytes: new Uint8Array() }, b: { dtype: "U8", shape: [0], bytes: new Uint8Array() } });
  const none = safetensors({});
  for (const target of [empty, none, small]) {
    for (const base of [empty, none, small]) {
      const { blob } = await pack(target, { base });
      const model = await open(blob, { base });
      assert.ok(Buffer.from(await model.asSafetensorsBlob().bytes()).equals(target));
    }
  }
});

const packedVector = vectorPath("zstn", "all_dtypes.zstn");
for (const [what, base, expected] of [
  ["an empty file", new Uint8Array(), { name: "FormatError", rule: "safetensors.too_small", message: /^The base: / }],
  ["a file of seven bytes", new Uint8Array(7), { name: "FormatError", rule: "safetensors.too_small", message: /^The base: / }],
  ["a file that is cut off in its header", small.subarray(0, 20), { name: "FormatError", rule: "safetensors.header_length", message: /^The base: / }],
  ["a download that ended early", small.subarray(0, -1), { name: "FormatError", rule: "safetensors.offsets", message: /base/ }],
  ["a web page", text("<!DOCTYPE html><html><body>Sign in</body></html>"), { name: "FormatError", message: /^The base cannot be read: .*web page/ }],
  ["a packed file that is cut off", readFileSync(packedVector).subarray(0, -9), { name: "FormatError", message: /^The base cannot be read/ }],
  ["a delta without its base", vectorPath("zstn", "md_identical.z4dm"), { name: "BaseRequiredError", message: /base is a delta itself/ }],
  ["a file that is not there", "/nowhere/base.safetensors", { name: "ReadError" }],
  ["a number", 7, { name: "InvalidInputError" }],
]) {
  test(`${what} is no base`, async () => {
    await assert.rejects(pack(small, { base }), expected);
  });
}

test("a base in several files is the file with all tensors in the order of their names", async () => {
  const byName = Object.entries(tensors).sort(([a], [b]) => (a < b ? -1 : 1));
  const map = {};
  for (const number of [0, 1]) {
    const part = Object.fromEntries(byName.filter((_, place) => place % 2 === number));
    writeFileSync(at(`part-${number}.safetensors`), safetensors(part));
    for (const name of Object.keys(part)) map[name] = `part-${number}.safetensors`;
  }
  const base = at("parts.safetensors.index.json");
  writeFileSync(base, JSON.stringify({ weight_map: map }));
  const target = at("tuned.safetensors");
  const expected = await bytesOf((await pack(target, { base: safetensors(Object.fromEntries(byName)) })).blob);
  const model = await open(base);
  for (const given of [base, model]) {
    const { blob } = await pack(target, { base: given });
    assert.ok(Buffer.from(await blob.arrayBuffer()).equals(expected));
    const restored = await open(blob, { base: given });
    assert.ok(Buffer.from(await restored.asSafetensorsBlob().bytes()).equals(readFileSync(target)));
    writeFileSync(at("of-parts.z4dm"), await bytesOf(blob));
    await unpack(at("of-parts.z4dm"), at("of-parts.safetensors"), { base });
    assert.ok(readFileSync(at("of-parts.safetensors")).equals(readFileSync(target)));
  }
  await assert.rejects(pack(small, { base: text(readFileSync(base, "utf8")) }), { name: "InvalidInputError" });
});

test("a model of another format is no base", async () => {
  const foreign = vectorPath("ztensor", JSON.parse(readFileSync(vectorPath("ztensor", "manifest.json"), "utf8")).files[0].file);
  await assert.rejects(pack(small, { base: foreign }), { name: "InvalidInputError", message: /\.zstn or \.z4dm/ });
});

for (const [what, source, expected] of [
  ["a packed file", packedVector, { name: "InvalidInputError", message: /already packed/ }],
  ["a web page", text("<!DOCTYPE html><html><body>Sign in</body></html>"), { name: "FormatError", message: /^This is a web page/ }],
  ["a download that ended early", small.subarray(0, -1), { name: "FormatError", rule: "safetensors.truncated" }],
]) {
  test(`${what} cannot be packed against a base`, async () => {
    await assert.rejects(pack(source, { base: small }), expected);
  });
}

test("every flipped bit of a packed base is refused, or makes a delta against the right bytes", async () => {
  const tensors = { a: { dtype: "U8", shape: [40], bytes: Uint8Array.from({ length: 40 }, (_, i) => i % 3) }, b: { dtype: "F32", shape: [2], bytes: new Uint8Array(8) } };
  const plain = safetensors(tensors);
  const packed = await bytesOf((await pack(plain)).blob);
  const right = sha256(await bytesOf((await pack(plain, { base: plain })).blob));
  let refused = 0;
  for (let bit = 0; bit < packed.length * 8; bit++) {
    const base = packed.slice();
    base[bit >> 3] ^= 1 << (bit & 7);
    const delta = await pack(plain, { base }).catch((error) => {
      assert.ok(["FormatError", "UnsupportedError", "LimitError", "InvalidInputError"].includes(error.name), String(error));
      refused += 1;
    });
    if (delta) assert.equal(sha256(await bytesOf(delta.blob)), right, `bit ${bit}`);
  }
  assert.ok(refused > packed.length, `${refused} refused`);
});
