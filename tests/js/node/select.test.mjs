/** `select` reads a part of a tensor on any axis: the same elements that are picked one by one, from few bytes and requests. */

import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { InvalidInputError, open } from "zstn";
import { bf16Tensor, safetensors, xorshift } from "../support/checkpoint.mjs";
import { pack, packAll, serve } from "../support/cli.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { goodForeign, goodZTensors, vectorPath } from "../support/vectors.mjs";

const scratch = scratchFolder();
const path = (name) => join(scratch, name);
const random = xorshift(11);
const below = (count) => random() % count;
let server;

/** The tensors of the model in every layout: stored in blocks, in one frame, short, with short rows, of eight dimensions. */
const SHAPES = { experts: ["BF16", [12, 96, 1024]], matrix: ["BF16", [1500, 700]], counts: ["I64", [40, 7, 30]], wide: ["F32", [3, 60_000]], few: ["BF16", [100, 50, 40]], bytes: ["U8", [5, 6, 7, 8, 9]], short: ["F16", [3, 4]], vector: ["F32", [1000]], deep: ["I16", [2, 3, 2, 3, 2, 3, 2, 3]] };
const ITEM_BYTES = { BF16: 2, F16: 2, I16: 2, F32: 4, I64: 8, U8: 1 };
const countOf = (shape) => shape.reduce((product, size) => product * size, 1);

function tensorsOf(seed) {
  const next = xorshift(seed);
  const filled = (name, [dtype, shape]) => {
    const length = countOf(shape) * ITEM_BYTES[dtype];
    if (name === "few") return Uint8Array.from({ length }, (_, i) => (i % 2 === 0 ? 0 : 60 + (next() % 5)));
    if (dtype === "BF16") return bf16Tensor(length / 2, next);
    return Uint8Array.from({ length }, (_, i) => (i % ITEM_BYTES[dtype] < 2 ? next() & 255 : 0));
  };
  return Object.fromEntries(Object.entries(SHAPES).map(([name, entry]) => [name, { dtype: entry[0], shape: entry[1], bytes: filled(name, entry) }]));
}

before(async () => {
  const base = tensorsOf(5);
  const tuned = tensorsOf(5);
  for (const { bytes } of Object.values(tuned)) for (let i = 0; i < bytes.length; i += 97) bytes[i] ^= 1;
  writeFileSync(path("model.safetensors"), safetensors(base));
  writeFileSync(path("tuned.safetensors"), safetensors(tuned));
  const names = Object.keys(base);
  mkdirSync(path("shards"));
  const map = {};
  for (const [i, of] of [names.filter((_, i) => i % 2 === 0), names.filter((_, i) => i % 2 === 1)].entries()) {
    const file = `model-0000${i + 1}-of-00002.safetensors`;
    writeFileSync(path(`shards/${file}`), safetensors(Object.fromEntries(of.map((name) => [name, base[name]]))));
    for (const name of of) map[name] = file;
  }
  writeFileSync(path("shards/model.safetensors.index.json"), JSON.stringify({ metadata: {}, weight_map: map }));
  await pack(path("model.safetensors"), path("model.zstn"));
  await packAll([path("model.safetensors")], path("max.zstn"), ["--effort", "max"]);
  await pack(path("model.safetensors"), path("extended.zstn"), { extended: true });
  await pack(path("tuned.safetensors"), path("tuned.z4dm"), { base: path("model.safetensors") });
  await pack(path("tuned.safetensors"), path("extended.z4dm"), { base: path("model.safetensors"), extended: true });
  server = await serve(scratch);
});
after(() => server?.stop());

/** Returns the shape and the bytes of a selection, whose elements are picked one by one. */
function picked({ shape, bytes }, select) {
  const itemBytes = bytes.length / countOf(shape);
  const entries = shape.map((_, axis) => select[axis] ?? null);
  const lists = shape.map((size, axis) => {
    const entry = entries[axis];
    const [begin, end] = typeof entry === "number" ? [entry, entry + 1] : [entry?.[0] ?? 0, entry?.[1] ?? size];
    return Array.from({ length: end - begin }, (_, i) => begin + i);
  });
  let places = [0];
  for (const [axis, list] of lists.entries()) places = places.flatMap((place) => list.map((index) => place * shape[axis] + index));
  const out = Buffer.alloc(places.length * itemBytes || 0);
  for (const [i, place] of places.entries()) out.set(bytes.subarray(place * itemBytes, (place + 1) * itemBytes), i * itemBytes);
  return { shape: lists.map((list) => list.length).filter((_, axis) => typeof entries[axis] !== "number"), bytes: out };
}

/** Returns a random entry for an axis; open, whole, single and empty ones are frequent. */
function entry(size) {
  const [a, b] = [below(size + 1), below(size + 1)].sort((one, other) => one - other);
  const entries = [null, [a, b], [a, null], [null, b], [a, a], ...(size > 0 ? [below(size), below(size)] : [])];
  return entries[below(entries.length)];
}

/** Compares selections of a tensor with its elements. */
async function check(model, name, whole, selections, message) {
  for (const select of selections) {
    const { shape, bytes } = await model.tensor(name, { select });
    const expected = picked(whole, select);
    assert.deepEqual(shape, expected.shape, `${message} ${name} ${JSON.stringify(select)}`);
    assert.ok(expected.bytes.equals(bytes), `${message} ${name} ${JSON.stringify(select)}`);
  }
}

const LAYOUTS = [["model.safetensors"], ["shards/model.safetensors.index.json"], ["model.zstn"], ["max.zstn"], ["extended.zstn"], ["tuned.z4dm", "model.safetensors"], ["tuned.z4dm", "model.zstn"], ["extended.z4dm", "model.zstn"], ["extended.z4dm", "max.zstn"]];

for (const [file, base] of LAYOUTS) {
  test(`selections of ${file}${base === undefined ? "" : ` against ${base}`} are the elements of its tensors`, async () => {
    const model = await open(path(file), base === undefined ? {} : { base: path(base) });
    for (const [name, { shape }] of model.tensors) {
      const whole = await model.tensor(name);
      const small = shape.map((size) => (size > 100 ? [below(size - 60), null] : null)).map((entry) => entry && [entry[0], entry[0] + below(60)]);
      const columns = [...shape.slice(0, -1).map(() => null), below(shape.at(-1))];
      const selections = [small, columns, [below(shape[0])], shape.map((size) => below(size)), shape.map(() => [0, 0])];
      if (countOf(shape) < 250_000) for (let i = 0; i < 6; i++) selections.push(shape.slice(0, below(shape.length + 1)).map(entry));
      await check(model, name, whole, selections, file);
    }
    model.close();
  });
}

test("selections of every kind of file, in part and as a whole", async () => {
  const files = [["zstn", "all_dtypes.zstn"], ["zstn", "all_dtypes.safetensors"], ...goodForeign("gguf").map(({ file }) => ["gguf", file]), ...goodForeign("npy").map(({ file }) => ["npy", file]), ...goodZTensors.map(({ file }) => ["ztensor", file])];
  let compared = 0;
  for (const [folder, file] of files) {
    const model = await open(vectorPath(folder, file), { siblings: () => undefined }).catch(() => undefined);
    for (const [name, { shape, byteLength }] of model?.tensors ?? []) {
      if (byteLength > 1e6 || !Number.isInteger(byteLength / countOf(shape)) || countOf(shape) === 0) continue;
      const whole = await model.tensor(name);
      await check(model, name, whole, [[], shape.map(entry), shape.map(entry), shape.slice(0, 1).map(entry)], file);
      compared += 1;
    }
    model?.close();
  }
  assert.ok(compared > 60, `${compared} tensors`);
});

test("a column of a matrix takes few requests, and one expert of a layer only its bytes", async () => {
  const model = await open(`${server.url}model.safetensors`);
  const before = { ...model.stats };
  const column = await model.tensor("matrix", { select: [null, 5] });
  assert.deepEqual(column.shape, [1500]);
  assert.ok(model.stats.roundTrips - before.roundTrips <= 2, "the rows between its elements are read along");
  const middle = { ...model.stats };
  await model.tensor("experts", { select: [7, [10, 20]] });
  assert.equal(model.stats.bytesFetched - middle.bytesFetched, 10 * 1024 * 2);
  const { whole, bytes, parts } = await model.plan("experts", { select: [[3, 5], [0, 2]] });
  assert.deepEqual([whole, bytes, parts.length], [false, 2 * 2 * 1024 * 2, 2]);
  const far = { ...model.stats };
  await model.tensor("experts", { select: [[3, 5], [0, 2]] });
  assert.equal(model.stats.bytesFetched - far.bytesFetched, bytes, "what lies between the two experts is not fetched");
  model.close();
});

test("of a packed tensor the blocks are fetched that hold the part", async () => {
  const model = await open(`${server.url}model.zstn`);
  const { storedLength } = model.tensors.get("experts");
  const plan = await model.plan("experts", { select: [7, [10, 20], [0, 50]] });
  assert.equal(plan.whole, false);
  assert.ok(plan.bytes < storedLength / 3, `${plan.bytes} of ${storedLength} bytes`);
  assert.equal(plan.bytes, plan.parts.reduce((sum, { length }) => sum + length, 0));
  const before = model.stats.bytesFetched;
  const told = [];
  await model.tensor("experts", { select: [7, [10, 20], [0, 50]], onProgress: (progress) => told.push(progress) });
  assert.ok(model.stats.bytesFetched - before >= plan.bytes && model.stats.bytesFetched - before < storedLength / 2);
  assert.ok(told.at(-1).loadedBytes >= told.at(-1).totalBytes && told.at(-1).totalBytes > 0);
  assert.deepEqual(await model.plan("few", { select: [3, null, 1] }), { whole: true, bytes: model.tensors.get("few").storedLength, parts: model.tensors.get("few").parts });
  assert.deepEqual((await model.plan("experts", { select: [[4, 4]] })).bytes, 0);
  model.close();
});

test("a part is read into memory of the caller", async () => {
  const model = await open(path("model.zstn"));
  const whole = await model.tensor("matrix");
  for (const select of [[[2, 9], [0, 3]], [[5, 9]], [3]]) {
    const into = new Uint16Array(10_000);
    const { data, bytes } = await model.tensor("matrix", { select, into });
    assert.equal(data.buffer, into.buffer);
    assert.ok(picked(whole, select).bytes.equals(bytes));
  }
  await assert.rejects(model.tensor("matrix", { select: [null, 3], into: new Uint16Array(10) }), InvalidInputError);
  model.close();
});

test("elements of less than a byte are selected where a part begins and ends on a byte", async () => {
  const bytes = Uint8Array.of(1, 2, 3, 4, 5, 6);
  const model = await open(safetensors({ w: { dtype: "F4", shape: [3, 4], bytes } }));
  assert.deepEqual([...(await model.tensor("w", { select: [[1, null]] })).bytes], [3, 4, 5, 6]);
  assert.deepEqual([...(await model.tensor("w", { select: [null, [2, 4]] })).bytes], [2, 4, 6]);
  await assert.rejects(model.tensor("w", { select: [null, 1] }), { name: "InvalidInputError", message: /F4 are parts of bytes.*\[3, 4\]/ });
  model.close();
});

test("a part that a tensor does not have is refused with axis, value and shape, before anything is fetched", async () => {
  const model = await open(path("model.zstn"));
  const before = { ...model.stats };
  const wrong = [[[[3, 13]], /axis 0.*\[3, 13\].*\[12, 96, 1024\]/], [[null, 96], /axis 1.*96/], [[null, null, [5, 4]], /axis 2.*\[5, 4\]/], [[-1], /axis 0.*-1/], [[[-2, null]], /axis 0/], [[1.5], /1\.5/], [[[0.5, 2]], /0\.5/], [[Number.NaN], /NaN/], [[["0", 1]], /axis 0/], [[undefined], /undefined/], [["all"], /all/], [[[1]], /axis 0/], [[[1, 2, 3]], /axis 0/], [[null, null, null, null], /4 entries/], [7, /list/], [null, /list/], [{}, /list/]];
  for (const [select, message] of wrong) {
    await assert.rejects(model.tensor("experts", { select }), (error) => error instanceof InvalidInputError && message.test(error.message), JSON.stringify(select));
    await assert.rejects(model.plan("experts", { select }), InvalidInputError);
  }
  await assert.rejects(model.tensor("experts", { select: [1], rows: [0, 1] }), { name: "InvalidInputError", message: /either/ });
  assert.deepEqual({ ...model.stats }, before);
  await assert.rejects(model.tensor("matrix", { select: [null, 1], signal: AbortSignal.abort(new Error("enough")) }), { message: "enough" });
  const reading = model.tensor("matrix", { select: [null, 1] });
  model.close();
  await assert.rejects(reading, { code: "closed" });
});

test("parameters are counted by dtype", async () => {
  for (const [file, base] of LAYOUTS) {
    const model = await open(path(file), base === undefined ? {} : { base: path(base) });
    const counts = {};
    for (const [dtype, shape] of Object.values(SHAPES)) counts[dtype] = (counts[dtype] ?? 0) + countOf(shape);
    assert.deepEqual(Object.fromEntries(model.parameterCounts), counts, file);
    model.close();
  }
});
