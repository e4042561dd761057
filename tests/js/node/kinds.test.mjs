/** Gauss files, compressed-tensors weights and sharded checkpoints are read by name like all other files. */

import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { open } from "zstn";
import { scratchFolder } from "../support/scratch.mjs";
import { answerRange, startServer } from "../support/server.mjs";
import { badCompressed, badGauss, goodCompressed, goodDeltas, goodGauss, refusalOf, vectorPath } from "../support/vectors.mjs";

const scratch = scratchFolder();

async function assertSame(model, expected) {
  for (const name of expected.tensors.keys()) {
    const [tensor, truth] = [await model.tensor(name), await expected.tensor(name)];
    assert.deepEqual([tensor.dtype, tensor.shape], [truth.dtype, truth.shape], name);
    assert.deepEqual(Buffer.from(tensor.bytes), Buffer.from(truth.bytes), name);
  }
}

async function readEverything(model) {
  for (const error of model.unreadable.values()) throw error;
  for (const name of model.tensors.keys()) await model.tensor(name);
}

/** Creates a model folder with a test vector of compressed-tensors. */
function modelFolder(set, name) {
  const folder = mkdtempSync(join(scratch, `${name}-`));
  copyFileSync(vectorPath(set, `${name}.config.json`), join(folder, "config.json"));
  copyFileSync(vectorPath(set, `${name}.safetensors`), join(folder, "model.safetensors"));
  return folder;
}

test("the manifests hold what these tests are about", () => {
  assert.ok(goodGauss.length >= 40 && badGauss.length >= 20);
  assert.ok(goodCompressed.length >= 20 && badCompressed.length >= 15);
});

for (const { name, exercises } of goodGauss) {
  test(`Gauss, ${name}: ${exercises}`, async () => {
    const model = await open(vectorPath("gauss", `${name}.gauss`));
    const expected = await open(vectorPath("gauss", `${name}.restored.safetensors`));
    assert.equal(model.kind, "gauss");
    assert.deepEqual([...model.tensors.keys()].sort(), [...expected.tensors.keys()].sort());
    await assertSame(model, expected);
    model.close();
    expected.close();
  });
}

for (const vector of badGauss) {
  test(`Gauss, ${vector.file} is refused: ${vector.why}`, async () => {
    await assert.rejects(open(vectorPath("gauss-bad", vector.file)).then(readEverything), refusalOf(vector));
  });
}

for (const { name, note } of goodCompressed) {
  test(`compressed-tensors, ${name}: ${note}`, async () => {
    const folder = modelFolder("compressed-tensors", name);
    const model = await open(join(folder, "model.safetensors"));
    const expected = await open(vectorPath("compressed-tensors", `${name}.dense.safetensors`));
    assert.equal(model.kind, "compressed-tensors");
    assert.equal(model.unreadable.size, 0);
    await assertSame(model, expected);
    const weight = [...model.tensors.values()].find(({ format }) => format !== undefined);
    assert.ok(weight.parts.length > 1);
    const stored = await open(join(folder, "model.safetensors"), { config: false });
    assert.equal(stored.kind, "safetensors");
    assert.ok(stored.tensors.size > model.tensors.size);
    // Bytes have no siblings, so without a configuration, tensors are returned as they are stored.
    const bytes = new Uint8Array(readFileSync(join(folder, "model.safetensors")));
    assert.equal((await open(bytes)).kind, "safetensors");
    const given = await open(bytes, { config: new Uint8Array(readFileSync(join(folder, "config.json"))) });
    assert.equal(given.kind, "compressed-tensors");
    await assertSame(given, expected);
  });
}

for (const vector of badCompressed) {
  test(`compressed-tensors, ${vector.name} is refused: ${vector.why}`, async () => {
    const folder = modelFolder("compressed-tensors-bad", vector.name);
    await assert.rejects(open(join(folder, "model.safetensors")).then(readEverything), refusalOf(vector));
  });
}

test("a base that only the other core can read is named as such", async () => {
  const { container, base } = goodDeltas[0];
  const zt = await open(vectorPath("ztensor", "v01_py011_basic.zt"));
  await assert.rejects(open(vectorPath("zstn", container.file), { base: zt }), { code: "invalid_input", message: /ztensor/ });
  const right = await open(vectorPath("zstn", base.file));
  const model = await open(vectorPath("zstn", container.file), { base: right });
  assert.equal(model.base, right);
});

/** Distributes the tensors of a safetensors file over `count` files, and writes their index. */
function deal(folder, file, count) {
  const whole = readFileSync(file);
  const headerBytes = Number(whole.readBigUInt64LE());
  const { __metadata__, ...header } = JSON.parse(whole.subarray(8, 8 + headerBytes));
  const weight_map = {};
  for (let shard = 0; shard < count; shard += 1) {
    const name = `model-${shard}.safetensors`;
    const own = Object.entries(header).filter((_, i) => i % count === shard);
    let length = 0;
    const parts = own.map(([tensor, { data_offsets: [begin, end], ...entry }]) => {
      weight_map[tensor] = name;
      const bytes = whole.subarray(8 + headerBytes + begin, 8 + headerBytes + end);
      length += bytes.length;
      return [tensor, { ...entry, data_offsets: [length - bytes.length, length] }, bytes];
    });
    const text = Buffer.from(JSON.stringify(Object.fromEntries(parts.map(([tensor, entry]) => [tensor, entry]))));
    const prefix = Buffer.alloc(8);
    prefix.writeBigUInt64LE(BigInt(text.length));
    writeFileSync(join(folder, name), Buffer.concat([prefix, text, ...parts.map(([, , bytes]) => bytes)]));
  }
  const index = join(folder, "model.safetensors.index.json");
  writeFileSync(index, JSON.stringify({ metadata: { total_size: 1 }, weight_map }, null, 2));
  return index;
}

test("a checkpoint in several files, by path, by address, and as files in hand", async (t) => {
  const folder = modelFolder("compressed-tensors", "pack013_w4_g32_asym_gidx");
  const index = deal(folder, join(folder, "model.safetensors"), 3);
  const expected = await open(vectorPath("compressed-tensors", "pack013_w4_g32_asym_gidx.dense.safetensors"));
  const server = await startServer((request, response) => {
    const name = new URL(request.url, "http://localhost").pathname.slice(1);
    answerRange(request, response, readFileSync(join(folder, name)));
  });
  t.after(() => server.stop());
  const inHand = (name) => new Blob([readFileSync(join(folder, name))]);
  for (const [openable, options] of [[index], [`${server.url}model.safetensors.index.json?download=true`], [inHand("model.safetensors.index.json"), { siblings: inHand }]]) {
    const model = await open(openable, options);
    assert.equal(model.kind, "compressed-tensors");
    assert.equal(model.fileCount, 3);
    await assertSame(model, expected);
    model.close();
  }
  assert.ok(server.requests.every(({ path }) => path.endsWith("?download=true")));
  // Three shards take the same number of round trips as one: for the index, the shards and the configuration.
  const model = await open(`${server.url}model.safetensors.index.json`);
  assert.ok(model.stats.roundTrips <= 5, JSON.stringify(model.stats));
});

test("an index without its files", async () => {
  const folder = join(scratch, "incomplete");
  mkdirSync(folder);
  const index = deal(folder, vectorPath("zstn", "tiny_llama_tied.safetensors"), 2);
  const bytes = new Uint8Array(readFileSync(index));
  await assert.rejects(open(bytes), { code: "invalid_input", message: /siblings/ });
  await assert.rejects(open(bytes, { siblings: () => undefined }), { code: "invalid_input" });
  const { weight_map } = JSON.parse(readFileSync(index, "utf8"));
  const write = (map) => writeFileSync(index, JSON.stringify({ weight_map: map }));
  write({ ...weight_map, elsewhere: "model-7.safetensors" });
  await assert.rejects(open(index), { code: "read", message: /model-7\.safetensors/ });
  write({ ...weight_map, elsewhere: "model-1.safetensors" });
  const partly = await open(index);
  assert.deepEqual([[...partly.tensors.keys()].sort(), [...partly.unreadable.keys()]], [Object.keys(weight_map).sort(), ["elsewhere"]]);
  await assert.rejects(partly.tensor("elsewhere"), { code: "malformed", rule: "sharded.tensor_missing", tensor: "elsewhere" });
  write({ ...weight_map, elsewhere: "../model-1.safetensors" });
  await assert.rejects(open(index), { code: "malformed", rule: "sharded.file_name" });
});
