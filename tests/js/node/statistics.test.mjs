/** Statistics that were stored when a model was packed match its values, and are returned without reading a tensor. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, before, test } from "node:test";
import { promisify } from "node:util";
import { open, pack } from "zstn";
import { bf16Tensor, safetensors, xorshift } from "../support/checkpoint.mjs";
import { pack as packNatively, program } from "../support/cli.mjs";
import { largeLayout } from "../support/large-layout.mjs";
import { scratchFolder } from "../support/scratch.mjs";

const run = promisify(execFile);
const random = xorshift(11);
const floats = Float32Array.of(1, -2, 0, NaN, Infinity, 4);
const matrix = bf16Tensor(600 * 300, random);
const file = safetensors({
  matrix: { dtype: "BF16", shape: [600, 300], bytes: matrix },
  again: { dtype: "BF16", shape: [600, 300], bytes: matrix },
  folded: { dtype: "BF16", shape: [300, 600], bytes: matrix },
  vector: { dtype: "F32", shape: [6], bytes: new Uint8Array(floats.buffer) },
  flags: { dtype: "BOOL", shape: [3], bytes: Uint8Array.of(1, 0, 1) },
  codes: { dtype: "I64", shape: [2], bytes: new Uint8Array(BigInt64Array.of(-3n, 5n).buffer) },
  nothing: { dtype: "F32", shape: [0], bytes: new Uint8Array(0) },
  pairs: { dtype: "C64", shape: [1], bytes: new Uint8Array(8) },
});
const folder = scratchFolder();
const models = [];
let packed;

async function opened(input) {
  const model = await open(input);
  models.push(model);
  return model;
}

before(async () => {
  packed = new Uint8Array(await (await pack(file)).blob.arrayBuffer());
});
afterEach(() => models.splice(0).forEach((model) => model.close()));

function figuresOf(values) {
  const finite = values.filter(Number.isFinite);
  const mean = finite.reduce((sum, value) => sum + value, 0) / finite.length;
  const squares = finite.reduce((sum, value) => sum + value * value, 0) / finite.length;
  return {
    count: values.length,
    min: finite.reduce((least, value) => Math.min(least, value)),
    max: finite.reduce((most, value) => Math.max(most, value)),
    mean,
    rms: Math.sqrt(squares),
    zeros: values.filter((value) => value === 0).length,
    nans: values.filter(Number.isNaN).length,
    infinities: values.filter((value) => Math.abs(value) === Infinity).length,
  };
}

function assertFigures({ mean, rms, ...exact }, expected) {
  assert.ok(Math.abs(mean - expected.mean) < 1e-6, `${mean} ${expected.mean}`);
  assert.ok(Math.abs(rms - expected.rms) < 1e-6 * (1 + expected.rms), `${rms} ${expected.rms}`);
  const { count, min, max, zeros, nans, infinities } = expected;
  const { rowsPerBand, bands, ...figures } = exact;
  assert.deepEqual(figures, { count, min, max, zeros, nans, infinities });
}

test("the figures of all tensors come with the index, those of bands with one read", async () => {
  const model = await opened(packed);
  const all = await model.statistics();
  assert.deepEqual([...all.keys()].sort(), ["again", "codes", "flags", "matrix", "vector"]);
  assertFigures(all.get("vector"), figuresOf([...floats]));
  assertFigures(all.get("flags"), figuresOf([1, 0, 1]));
  assertFigures(all.get("codes"), figuresOf([-3, 5]));
  assert.equal(all.get("matrix").bands, undefined);
  const values = [...(await model.tensor("matrix")).toFloat32()];
  const one = await model.statistics("matrix");
  assertFigures(one, figuresOf(values));
  assert.equal(one.rowsPerBand, 256);
  assert.equal(one.bands.length, 3);
  for (const [number, band] of one.bands.entries()) assertFigures(band, figuresOf(values.slice(number * 256 * 300, (number + 1) * 256 * 300)));
  assert.deepEqual(await model.statistics("again"), one);
  // These tensors have equal bytes but another shape, no elements, and complex numbers.
  for (const name of ["folded", "nothing", "pairs"]) assert.equal(await model.statistics(name), undefined, name);
  await assert.rejects(model.statistics("other"), { name: "TensorNotFoundError" });
});

test("they cost no bytes of tensors", async () => {
  const path = join(folder, "counted.zstn");
  await writeFile(path, packed);
  const model = await opened(path);
  const before = model.stats.bytesFetched;
  await model.statistics();
  assert.equal(model.stats.bytesFetched, before);
});

test("`statistics: false` leaves them out, and plain files have none", async () => {
  const { blob } = await pack(file, { statistics: false });
  for (const input of [blob, file]) {
    const model = await opened(input);
    assert.equal(await model.statistics(), undefined);
    assert.equal(await model.statistics("vector"), undefined);
  }
});

test("the command line stores the same figures", async () => {
  const [plain, native] = ["m.safetensors", "m.zstn"].map((name) => join(folder, name));
  await writeFile(plain, file);
  await packNatively(plain, native);
  const ours = await opened(packed);
  const theirs = await opened(await readFile(native));
  assert.deepEqual(await theirs.statistics(), await ours.statistics());
  assert.deepEqual(await theirs.statistics("matrix"), await ours.statistics("matrix"));
  const { stdout } = await run(program(), ["ls", "--stats", "--json", native]);
  const listed = JSON.parse(stdout).tensors.find(({ name }) => name === "vector").statistics;
  assertFigures((await ours.statistics()).get("vector"), { ...listed, count: listed.elements });
});

test("damaged figures are refused, never shown", async () => {
  const model = await opened(packed);
  const { bands } = await model.statistics("matrix");
  const at = Buffer.from(packed).indexOf(Buffer.from(new Float32Array([bands[1].rms]).buffer));
  assert.ok(at > 0);
  for (let bit = 0; bit < 32; bit++) {
    const damaged = packed.slice();
    damaged[at + (bit >> 3)] ^= 1 << (bit & 7);
    const model = await opened(damaged);
    await assert.rejects(model.statistics("matrix"), { name: "FormatError", rule: "zstn.statistics", tensor: "matrix" });
    assert.equal((await model.tensor("vector")).data.length, 6);
  }
});

test("the statistics of 70 billion parameters take a few kilobytes, those of all bands less than 2 MB", async () => {
  const model = await opened(await largeLayout(folder));
  const all = await model.statistics();
  assert.equal(all.size, 723);
  const bytes = model.stats.bytesFetched;
  assert.ok(bytes < 500_000, `${bytes} bytes to open it`);
  let bands = 0;
  for (const name of all.keys()) bands += (await model.statistics(name)).bands.length;
  assert.ok(bands > 25_000);
  assert.ok(model.stats.bytesFetched < 2_000_000, `${model.stats.bytesFetched} bytes`);
});

test("a shard with a tensor that is read from another one has none, the other one has", async () => {
  const one = (value) => ({ dtype: "F32", shape: [4], bytes: new Uint8Array(new Float32Array(4).fill(value).buffer) });
  const shards = { a: { first: one(1), both: one(2), last: one(3) }, b: { both: one(5), other: one(6) } };
  for (const [name, tensors] of Object.entries(shards)) {
    const { blob } = await pack(safetensors(tensors));
    await writeFile(join(folder, `${name}.zstn`), new Uint8Array(await blob.arrayBuffer()));
  }
  const index = join(folder, "model.safetensors.index.json");
  await writeFile(index, JSON.stringify({ weight_map: { first: "a.zstn", last: "a.zstn", both: "b.zstn", other: "b.zstn" } }));
  const model = await opened(index);
  const all = await model.statistics();
  assert.deepEqual([...all].map(([name, { max }]) => [name, max]), [["both", 5], ["other", 6]]);
  assert.equal(await model.statistics("last"), undefined);
  assert.equal((await model.tensor("last")).data[0], 3);
});
