/** Deltas that are opened with their base and read tensor by tensor, over HTTP and from disk. */

import assert from "node:assert/strict";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { ZstnError, open, unpack } from "zstn";
import { MIDDLE_TENSOR, safetensors, writeLanguageModel, xorshift } from "../support/checkpoint.mjs";
import { pack, serve } from "../support/cli.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { cost } from "../support/traffic.mjs";
import { answerRange, startServer } from "../support/server.mjs";
import { REFUSALS, badDeltas, goodDeltas, refusalOf, vectorPath } from "../support/vectors.mjs";

const good = (entry) => vectorPath("zstn", entry.file);
const bad = (entry) => vectorPath("zstn-bad", entry.file);
const lazily = goodDeltas.filter(({ official_base, official_target }) => official_base.valid && official_target.valid);
const wholeOnly = goodDeltas.filter((vector) => !lazily.includes(vector));

test("the manifests hold what these tests are about", () => {
  assert.deepEqual([lazily.length, wholeOnly.length, badDeltas.length], [19, 2, 9]);
});

for (const vector of lazily) {
  test(`${vector.name}: ${vector.exercises}`, async () => {
    const model = await open(good(vector.container), { base: good(vector.base) });
    const target = await open(good(vector.target));
    assert.equal(model.kind, "z4dm");
    assert.equal(model.originalSize, target.size);
    assert.deepEqual(model.metadata, target.metadata);
    assert.deepEqual([...model.tensors.keys()], [...target.tensors.keys()]);
    for (const record of vector.records) {
      const info = model.tensors.get(record.name);
      assert.equal(info.base, { COPY: "copy", DELTA: "delta", FULL: undefined }[record.kind]);
      if (record.payload_offset !== undefined) {
        const [{ offset, length }] = info.parts;
        assert.equal(offset + length, record.payload_offset + record.payload_len);
      }
      const tensor = await model.tensor(record.name);
      const expected = await target.tensor(record.name);
      assert.deepEqual([tensor.dtype, tensor.shape], [expected.dtype, expected.shape]);
      assert.deepEqual(Buffer.from(tensor.bytes), Buffer.from(expected.bytes), record.name);
    }
    model.close();
    target.close();
  });
}

for (const vector of wholeOnly) {
  test(`${vector.name} cannot be read by name: ${vector.exercises}`, async () => {
    await assert.rejects(open(good(vector.container), { base: good(vector.base) }), { name: "FormatError", rule: "safetensors.offsets" });
  });
}

for (const vector of badDeltas) {
  test(`${vector.name} is refused: ${vector.why}`, async () => {
    await assert.rejects(
      async () => {
        const model = await open(bad(vector), { base: bad(vector.base) });
        for (const name of model.tensors.keys()) await model.tensor(name);
      },
      refusalOf(vector),
    );
  });
}

const scratch = scratchFolder();
const at = (name) => join(scratch, name);
const SAME_TENSOR = "transformer.h.1.mlp.c_fc.weight";
const NEW_TENSOR = "adapter.weight";
let server;
let tuned;

/** Returns a fine-tune: some tensors slightly different, most unchanged, one new. */
function tune(tensors) {
  const result = { ...tensors };
  for (const name of [MIDDLE_TENSOR, "transformer.h.4.attn.c_proj.weight"]) {
    const bytes = Uint8Array.from(tensors[name].bytes);
    for (let i = 0; i < bytes.length; i += 98) bytes[i] ^= 1;
    result[name] = { ...tensors[name], bytes };
  }
  result[NEW_TENSOR] = { dtype: "BF16", shape: [60_000], bytes: tensors[SAME_TENSOR].bytes.subarray(0, 120_000) };
  return result;
}

before(async () => {
  const tensors = await writeLanguageModel(at("base.safetensors"));
  tuned = tune(tensors);
  const twice = { ...tuned, [NEW_TENSOR]: { ...tuned[NEW_TENSOR], bytes: Uint8Array.from(tuned[NEW_TENSOR].bytes, (byte) => byte ^ 1) } };
  writeFileSync(at("tuned.safetensors"), safetensors(tuned, { format: "pt" }));
  writeFileSync(at("twice.safetensors"), safetensors(twice, { format: "pt" }));
  await pack(at("base.safetensors"), at("base.zstn"));
  await pack(at("tuned.safetensors"), at("tuned.z4dm"), { base: at("base.safetensors") });
  await pack(at("twice.safetensors"), at("twice.z4dm"), { base: at("tuned.safetensors") });
  server = await serve(scratch);
});
after(() => server?.stop());

for (const base of ["base.safetensors", "base.zstn"]) {
  test(`one tensor of a fine-tune over ${base} takes as many round trips as one of a packed file`, async () => {
    const first = server.requests.length;
    const model = await open(`${server.url}tuned.z4dm`, { base: `${server.url}${base}` });
    const tensor = await model.tensor(MIDDLE_TENSOR);
    assert.deepEqual(Buffer.from(tensor.bytes), Buffer.from(tuned[MIDDLE_TENSOR].bytes));

    const { stats } = model;
    const log = (await server.settled(first + stats.requests + model.base.stats.requests)).slice(first);
    assert.ok(log.every(({ range, method }) => method === "GET" && /^bytes=\d+-\d+$/.test(range)), "no suffix ranges");
    const info = model.tensors.get(MIDDLE_TENSOR);
    assert.equal(info.base, "delta");
    assert.ok(info.storedLength < info.byteLength / 10, `${info.storedLength} bytes`);
    const ofDelta = log.filter(({ path }) => path.endsWith("tuned.z4dm"));
    const fetchedBytes = ofDelta.reduce((sum, { bytes }) => sum + bytes, 0);
    assert.deepEqual(cost(stats), { requests: 3, roundTrips: 3, bytesFetched: fetchedBytes });
    assert.equal(ofDelta.length, 3);
    const headerBytes = Number(readFileSync(at("tuned.z4dm")).readBigUInt64LE(5));
    assert.ok(fetchedBytes <= info.storedLength + 32768 + headerBytes / 2 + 512, `${fetchedBytes} bytes`);
    const inBase = model.base.tensors.get(MIDDLE_TENSOR);
    assert.ok(model.base.stats.requests <= 3);
    assert.ok(model.base.stats.bytesFetched <= inBase.storedLength + 65536);
    model.close();
  });
}

test("a tensor as in the base costs nothing of the delta, a new one nothing of the base", async () => {
  const model = await open(`${server.url}tuned.z4dm`, { base: `${server.url}base.zstn` });
  const before = [model.stats.requests, model.base.stats.requests];
  const same = await model.tensor(SAME_TENSOR);
  assert.deepEqual(Buffer.from(same.bytes), Buffer.from(tuned[SAME_TENSOR].bytes));
  assert.deepEqual([model.stats.requests, model.base.stats.requests], [before[0], before[1] + 1]);
  const added = await model.tensor(NEW_TENSOR);
  assert.deepEqual(Buffer.from(added.bytes), Buffer.from(tuned[NEW_TENSOR].bytes));
  assert.deepEqual([model.stats.requests, model.base.stats.requests], [before[0] + 1, before[1] + 1]);
});

/** Writes a model in several files: `parts` are the tensors of each. Returns the path of its index. */
function writeShards(name, parts) {
  const files = parts.map((tensors, number) => [`${name}-${number}.safetensors`, tensors]);
  for (const [file, tensors] of files) writeFileSync(at(file), safetensors(tensors));
  const map = files.flatMap(([file, tensors]) => Object.keys(tensors).map((tensor) => [tensor, file]));
  const index = at(`${name}.safetensors.index.json`);
  writeFileSync(index, JSON.stringify({ weight_map: Object.fromEntries(map) }));
  return index;
}

test("a base in several files, with the shards that it had and with others", async () => {
  const base = Object.entries(await writeLanguageModel(at("base.safetensors")));
  const parts = (sizes) => sizes.map((_, number) => Object.fromEntries(base.filter((_, place) => place % sizes.length === number)));
  const two = writeShards("two", parts([0, 1]));
  const three = writeShards("three", parts([0, 1, 2]));
  await pack(at("tuned.safetensors"), at("sharded.z4dm"), { base: two });
  assert.ok(statSync(at("sharded.z4dm")).size < statSync(at("tuned.z4dm")).size + 64);
  for (const index of [two, three, `${server.url}two.safetensors.index.json`]) {
    const model = await open(at("sharded.z4dm"), { base: index });
    for (const [name, { bytes }] of Object.entries(tuned)) assert.ok(Buffer.from(bytes).equals((await model.tensor(name)).bytes), name);
    const rows = await model.tensor(MIDDLE_TENSOR, { rows: [1, 3] });
    const rowBytes = rows.bytes.byteLength / 2;
    assert.deepEqual(Buffer.from(rows.bytes), Buffer.from(tuned[MIDDLE_TENSOR].bytes.subarray(rowBytes, 3 * rowBytes)));
    model.close();
  }
  await assert.rejects(open(at("sharded.z4dm"), { base: at("base.safetensors") }), { name: "WrongBaseError" });
  await assert.rejects(open(at("tuned.z4dm"), { base: two }), { name: "WrongBaseError" });
});

test("a base in another dtype is converted", async () => {
  const random = xorshift(41);
  const single = Uint32Array.from({ length: 1200 * 500 }, () => (0x3c800000 + (random() >>> 7)) ^ (random() & 1 ? 0x80000000 : 0));
  // To the nearest, ties to even.
  const rounded = Uint16Array.from(single, (bits) => (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16);
  const file = (dtype, values) => safetensors({ w: { dtype, shape: [1200, 500], bytes: new Uint8Array(values.buffer) } });
  const [target, delta] = [file("BF16", rounded), at("rounded.z4dm")];
  writeFileSync(at("single.safetensors"), file("F32", single));
  writeFileSync(at("rounded.safetensors"), target);
  await pack(at("single.safetensors"), at("single.zstn"));
  await pack(at("rounded.safetensors"), delta, { base: at("single.zstn"), extended: true });
  assert.ok(statSync(delta).size < 1000, `${statSync(delta).size} bytes`);
  for (const base of [at("single.safetensors"), at("single.zstn"), `${server.url}single.safetensors`]) {
    const model = await open(delta, { base });
    assert.deepEqual(new Uint16Array((await model.tensor("w")).bytes.buffer), rounded);
    const rows = (await model.tensor("w", { rows: [7, 20] })).bytes;
    assert.deepEqual(new Uint16Array(rows.slice().buffer), rounded.subarray(7 * 500, 20 * 500));
    model.close();
    const { blob } = await unpack(delta, { base });
    assert.ok(Buffer.from(await blob.arrayBuffer()).equals(target));
  }
  const two = [at("single.safetensors"), at("single.zstn")];
  await assert.rejects(open(delta, { base: two }), { code: "invalid_input", message: /against one base; 2 were given/ });
  await assert.rejects(open(delta, { base: file("I32", single) }), { code: "wrong_base", rule: "delta.base_tensor" });
});

test("a delta against a delta, progress and all", async () => {
  const middle = await open(at("tuned.z4dm"), { base: at("base.zstn") });
  const model = await open(at("twice.z4dm"), { base: middle });
  const heard = [];
  const tensor = await model.tensor(MIDDLE_TENSOR, { onProgress: (progress) => heard.push(progress) });
  assert.deepEqual(Buffer.from(tensor.bytes), Buffer.from(tuned[MIDDLE_TENSOR].bytes));
  const total = model.tensors.get(MIDDLE_TENSOR).storedLength + middle.tensors.get(MIDDLE_TENSOR).storedLength + middle.base.tensors.get(MIDDLE_TENSOR).storedLength;
  assert.deepEqual(heard.at(-1), { stage: "tensor", tensor: MIDDLE_TENSOR, loadedBytes: total, totalBytes: total });
  await assert.rejects(open(at("twice.z4dm"), { base: at("tuned.z4dm") }), { name: "BaseRequiredError", message: /base is a delta itself/ });
});

test("a base given as a model stays open, one opened on the way is closed", async () => {
  const base = await open(at("base.safetensors"));
  const model = await open(at("tuned.z4dm"), { base });
  assert.equal(model.base, base);
  model.close();
  await assert.rejects(model.tensor(SAME_TENSOR), { name: "ModelClosedError" });
  assert.equal((await base.tensor(SAME_TENSOR)).bytes.byteLength, tuned[SAME_TENSOR].bytes.byteLength);
  const other = await open(at("tuned.z4dm"), { base: at("base.safetensors") });
  const own = other.base;
  other.close();
  await assert.rejects(own.tensor(SAME_TENSOR), { name: "ModelClosedError" });
  base.close();
  await assert.rejects(open(at("tuned.z4dm"), { base }), { name: "ModelClosedError" });
});

test("without a base, with a base that is not wanted, with one that does not fit", async () => {
  await assert.rejects(open(at("tuned.z4dm")), { name: "BaseRequiredError", code: "base_required", message: /open\(source, \{ base \}\)/ });
  await assert.rejects(open(at("base.zstn"), { base: at("base.safetensors") }), { name: "InvalidInputError", message: /is not a delta/ });
  await assert.rejects(open(at("tuned.z4dm"), { base: at("tuned.safetensors") }), { name: "WrongBaseError", code: "wrong_base", rule: "delta.reference", message: /base/ });
  const tensors = { [SAME_TENSOR]: { dtype: "U8", shape: [3], bytes: Uint8Array.of(1, 2, 3) } };
  await assert.rejects(open(at("tuned.z4dm"), { base: safetensors(tensors) }), { name: "WrongBaseError", code: "wrong_base", rule: "delta.base_tensor" });
  await assert.rejects(open(at("tuned.z4dm"), { base: at("nothing.safetensors") }), { name: "ReadError" });
  await assert.rejects(open(at("tuned.z4dm"), { base: 7 }), { name: "InvalidInputError" });
  await assert.rejects(open(at("nothing.z4dm"), { base: at("base.safetensors") }), { name: "ReadError" });
  const stop = AbortSignal.abort(new Error("enough"));
  await assert.rejects(open(at("tuned.z4dm"), { base: at("base.safetensors"), signal: stop }), { message: "enough" });
});

test("a base with other bytes under the same names shows at the first tensor that needs them", async () => {
  const file = readFileSync(at("base.safetensors"));
  const header = 8 + Number(file.readBigUInt64LE(0));
  const model = await open(at("tuned.z4dm"), { base: Buffer.concat([file.subarray(0, header), file.subarray(header).map((byte) => byte ^ 1)]) });
  await assert.rejects(model.tensor(MIDDLE_TENSOR), { name: "WrongBaseError", code: "wrong_base", rule: "delta.reference", tensor: MIDDLE_TENSOR });
  await assert.rejects(model.tensor(SAME_TENSOR), { name: "WrongBaseError", rule: "delta.reference", tensor: SAME_TENSOR });
  assert.equal((await model.tensor(NEW_TENSOR)).data.length, 60_000);
});

/**
 * Returns the delta as z4ai writes it: without its trailer, and without the flag of each payload that announces the
 * trailer.
 */
function withoutTrailer(delta) {
  const bare = Buffer.from(delta.subarray(0, delta.length - 16 - Number(delta.readBigUInt64LE(delta.length - 16))));
  let at = 33 + Number(bare.readBigUInt64LE(5));
  while (at < bare.length) {
    at += 18 + bare.readUInt16LE(at);
    const kind = bare[at++];
    if (kind === 2) continue;
    const payload = at + 8;
    at = payload + Number(bare.readBigUInt64LE(at));
    bare[payload + (/^Z(SP|PL)1$/.test(bare.toString("latin1", payload, payload + 4)) ? 6 : 5)] &= 0x7f;
  }
  return bare;
}

test("a delta without a trailer is walked by its records", async () => {
  const file = readFileSync(at("tuned.z4dm"));
  const random = Buffer.alloc(3_000_000);
  for (let i = 0; i < random.length; i++) random[i] = Math.imul(i, 0x9e3779b1) >>> 24 ^ Math.imul(i ^ (i >>> 7), 0x85ebca6b) >>> 23;
  const tensors = Object.fromEntries(["a", "b", "c"].map((name, i) => [name, { dtype: "U8", shape: [2_000_000], bytes: random.subarray(i * 333_333, i * 333_333 + 2_000_000) }]));
  writeFileSync(at("noise.safetensors"), safetensors(tensors));
  await pack(at("noise.safetensors"), at("noise.z4dm"), { base: at("base.safetensors") });
  const bare = withoutTrailer(readFileSync(at("noise.z4dm")));
  assert.ok(bare.length > 4 << 20, `${bare.length} bytes`);
  for (const [bytes, rounds, truth] of [[withoutTrailer(file), 3, tuned], [bare, 6, tensors]]) {
    const model = await open(bytes, { base: at("base.zstn") });
    assert.ok(model.stats.roundTrips <= rounds && model.stats.bytesFetched < bytes.length + 1, JSON.stringify(model.stats));
    for (const [name, { bytes }] of Object.entries(truth)) {
      assert.deepEqual(Buffer.from((await model.tensor(name)).bytes), Buffer.from(bytes), name);
    }
  }
});

test("headers go to the base only where the file is from the same server", async () => {
  const files = { "/tuned.z4dm": readFileSync(at("tuned.z4dm")), "/base.zstn": readFileSync(at("base.zstn")) };
  const tokens = [];
  const handler = (request, response) => {
    tokens.push(request.headers.authorization);
    answerRange(request, response, files[request.url]);
  };
  const [one, two] = await Promise.all([startServer(handler), startServer(handler)]);
  try {
    const headers = { Authorization: "Bearer t" };
    await open(`${one.url}tuned.z4dm`, { base: `${one.url}base.zstn`, headers });
    assert.ok(tokens.length > 2 && tokens.every((token) => token === "Bearer t"), String(tokens));
    tokens.length = 0;
    const other = await open(`${one.url}tuned.z4dm`, { base: `${two.url}base.zstn`, headers });
    assert.equal(tokens.filter((token) => token === undefined).length, other.base.stats.requests);
    assert.equal(tokens.filter((token) => token !== undefined).length, other.stats.requests);
  } finally {
    await Promise.all([one.stop(), two.stop()]);
  }
});

test("every damaged bit of a sealed delta is refused or changes nothing", async () => {
  const bytes = (...values) => Uint8Array.from(values);
  const old = { same: { dtype: "U8", shape: [4], bytes: bytes(1, 2, 3, 4) }, tuned: { dtype: "I16", shape: [2, 30], bytes: new Uint8Array(120).map((_, i) => i * 37) } };
  const now = { ...old, tuned: { ...old.tuned, bytes: old.tuned.bytes.map((byte, i) => (i === 8 ? byte ^ 1 : byte)) }, more: { dtype: "U8", shape: [3], bytes: bytes(9, 8, 7) } };
  writeFileSync(at("old.safetensors"), safetensors(old));
  writeFileSync(at("now.safetensors"), safetensors(now));
  await pack(at("now.safetensors"), at("now.z4dm"), { base: at("old.safetensors") });
  const base = await open(at("old.safetensors"));
  const file = readFileSync(at("now.z4dm"));
  let refused = 0;
  let exact = 0;
  for (let bit = 0; bit < file.length * 8; bit++) {
    const flipped = Buffer.from(file);
    flipped[bit >> 3] ^= 1 << (bit & 7);
    const model = await open(flipped, { base }).catch(mustBeRefusal);
    for (const [name, { shape, dtype, bytes }] of Object.entries(now)) {
      const tensor = await model?.tensor(name).catch(mustBeRefusal);
      if (!tensor) {
        refused += 1;
        continue;
      }
      assert.deepEqual([tensor.dtype, tensor.shape, Buffer.from(tensor.bytes)], [dtype, shape, Buffer.from(bytes)], `bit ${bit}`);
      exact += 1;
    }
    model?.close();
  }
  for (let length = 0; length < file.length; length++) {
    const model = await open(file.subarray(0, length), { base }).catch(mustBeRefusal);
    for (const [name, { bytes }] of Object.entries(now)) {
      const tensor = await model?.tensor(name).catch(mustBeRefusal);
      if (tensor) assert.deepEqual(Buffer.from(tensor.bytes), Buffer.from(bytes), `cut to ${length}`);
    }
    model?.close();
  }
  assert.ok(refused > 5000 && exact > 1000, `${refused} refused, ${exact} exact`);
});

function mustBeRefusal(error) {
  assert.ok(error instanceof ZstnError && REFUSALS.includes(error.code) && error.cause === undefined, String(error));
  return undefined;
}
