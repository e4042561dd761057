/** Merged models: deltas of several checkpoints, which are opened together with all of these. */

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { open, pack as packHere, unpack } from "zstn";
import { safetensors } from "../support/checkpoint.mjs";
import { pack, serve } from "../support/cli.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { vectorPath } from "../support/vectors.mjs";

const released = (file) => vectorPath("released/0.1.0", file);
const [DELTA, MERGED, BASE, TUNED] = ["merged.z4dm", "merged.safetensors", "base.safetensors", "tuned.safetensors"].map(released);
const [OTHER, OTHER_BASE] = ["paired-delta.z4dm", "resized.safetensors"].map(released);

const folder = scratchFolder();
let server;

before(async () => {
  await pack(BASE, join(folder, "base.zstn"));
  server = await serve(folder);
});

after(() => server.stop());

/** Writes a model as shards with one tensor each, and returns the path of their index. */
async function sharded(path) {
  const model = await open(path);
  const map = {};
  for (const name of model.tensors.keys()) {
    map[name] = `shard-${name}.safetensors`;
    const { dtype, shape, bytes } = await model.tensor(name);
    writeFileSync(join(folder, map[name]), safetensors({ [name]: { dtype, shape, bytes } }));
  }
  model.close();
  const index = join(folder, "sharded.safetensors.index.json");
  writeFileSync(index, JSON.stringify({ weight_map: map }));
  return index;
}

/** Compares all tensors, and some rows, with those of the merged model. */
async function assertMerged(model) {
  const expected = await open(MERGED);
  assert.deepEqual([...model.tensors.keys()], [...expected.tensors.keys()]);
  for (const [name, { shape }] of expected.tensors) {
    const [tensor, wanted] = await Promise.all([model.tensor(name), expected.tensor(name)]);
    assert.deepEqual(Buffer.from(tensor.bytes), Buffer.from(wanted.bytes), name);
    if (!(shape.length > 0 && shape[0] > 4)) continue;
    const [some, wantedRows] = await Promise.all([model.tensor(name, { rows: [1, 4] }), expected.tensor(name, { rows: [1, 4] })]);
    assert.deepEqual(Buffer.from(some.bytes), Buffer.from(wantedRows.bytes), `rows of ${name}`);
  }
  expected.close();
}

for (const [title, sources] of [
  ["plain files", () => [BASE, TUNED]],
  ["a packed file and bytes", () => [join(folder, "base.zstn"), readFileSync(TUNED)]],
  ["an address and a file", () => [`${server.url}base.zstn`, TUNED]],
  ["a model in several files and a file", async () => [await sharded(BASE), TUNED]],
]) {
  test(`a merged model is read from its sources: ${title}`, async () => {
    const model = await open(DELTA, { base: await sources() });
    assert.equal(model.kind, "z4dm");
    await assertMerged(model);
    const { requests, bytesFetched } = model.base.stats;
    assert.ok(requests >= 4 && bytesFetched > 30_000, `${requests} requests, ${bytesFetched} bytes`);
    const file = Buffer.from(await model.asSafetensorsBlob().bytes());
    assert.ok(file.equals(readFileSync(MERGED)));
    model.close();
  });

  test(`a merged model is restored from its sources: ${title}`, async () => {
    const { blob, kind } = await unpack(DELTA, { base: await sources() });
    assert.equal(kind, "safetensors");
    assert.ok(Buffer.from(await blob.arrayBuffer()).equals(readFileSync(MERGED)));
  });
}

test("a merged model closes the sources that it has opened, and no others", async () => {
  const given = await open(BASE);
  const model = await open(DELTA, { base: [given, TUNED] });
  await assertMerged(model);
  const computed = model.base;
  model.close();
  await assert.rejects(computed.tensor("mask"), { name: "ModelClosedError" });
  assert.equal((await given.tensor("mask")).bytes.byteLength, 100);
  given.close();
  await assert.rejects(open(DELTA, { base: [given, TUNED] }), { name: "ModelClosedError" });
});

test("closing a merged model ends its reads, and spoils no other model", async () => {
  const other = await open(DELTA, { base: [BASE, TUNED] });
  const model = await open(DELTA, { base: [BASE, TUNED] });
  const reads = [...model.tensors.keys()].map((name) => assert.rejects(model.tensor(name), { name: "ModelClosedError" }));
  model.close();
  await Promise.all(reads);
  await assertMerged(other);
  other.close();
});

test("a source that is a delta is opened with its own base", async () => {
  const tuned = await open(released("delta.z4dm"), { base: BASE });
  const model = await open(DELTA, { base: [BASE, tuned] });
  await assertMerged(model);
  model.close();
  tuned.close();
});

test("other sources than those of the merged model are refused", async () => {
  const wrong = (base) => assert.rejects(open(DELTA, { base }), { name: "WrongBaseError", code: "wrong_base", message: /2 bases together/ });
  await wrong(BASE);
  await wrong([BASE, TUNED, BASE]);
  await assert.rejects(open(DELTA, { base: [BASE, OTHER_BASE] }), { name: "WrongBaseError", rule: "delta.base_tensor" });
  await assert.rejects(open(DELTA), { name: "BaseRequiredError", message: /2 checkpoints together/ });
  await assert.rejects(open(DELTA, { base: [] }), { name: "BaseRequiredError" });
  await assert.rejects(open(DELTA, { base: [BASE, 7] }), { name: "InvalidInputError" });
  await assert.rejects(open(DELTA, { base: [BASE, vectorPath("gguf", "q4_0.gguf")] }), { name: /Error$/ });
  // In another order, the bytes of the base are others.
  const swapped = await open(DELTA, { base: [TUNED, BASE] });
  await assert.rejects(swapped.tensor("layer.weight"), { name: "WrongBaseError", tensor: "layer.weight" });
  swapped.close();
});

test("several bases are for merged models only", async () => {
  await assert.rejects(open(OTHER, { base: [BASE, TUNED] }), { name: "InvalidInputError", message: /one base; 2 were given/ });
  const model = await open(OTHER, { base: [BASE] });
  assert.equal(model.base.kind, "safetensors");
  model.close();
  await assert.rejects(packHere(MERGED, { base: [BASE, TUNED] }), { name: "InvalidInputError", message: /one base/ });
});
