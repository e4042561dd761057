/** Reads of some rows of a tensor return the right bytes and fetch little more than their length. */

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { InvalidInputError, open } from "zstn";
import { bf16Tensor, safetensors, xorshift } from "../support/checkpoint.mjs";
import { pack, serve } from "../support/cli.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { vectorPath } from "../support/vectors.mjs";

const ROWS = 40_000;
const WIDTH = 768;
const rowBytes = 2 * WIDTH;
const scratch = scratchFolder();
const path = (name) => join(scratch, name);
let embedding;
let server;

before(async () => {
  embedding = bf16Tensor(ROWS * WIDTH, xorshift(5));
  const few = Uint8Array.from({ length: 800_000 }, (_, i) => (i % 2 === 0 ? 0 : 60 + (embedding[i] % 5)));
  const tensors = {
    embedding: { dtype: "BF16", shape: [ROWS, WIDTH], bytes: embedding },
    few: { dtype: "BF16", shape: [400, 1000], bytes: few },
    scalar: { dtype: "F32", shape: [], bytes: new Uint8Array(4) },
    none: { dtype: "F32", shape: [0, 7], bytes: new Uint8Array(0) },
  };
  writeFileSync(path("model.safetensors"), safetensors(tensors));
  await pack(path("model.safetensors"), path("model.zstn"));
  server = await serve(scratch);
});
after(() => server?.stop());

const rowsOf = (begin, end) => Buffer.from(embedding.subarray(begin * rowBytes, end * rowBytes));

test("rows of a 60 MB embedding: one round trip, a block of each plane and what the rows take", async () => {
  const model = await open(`${server.url}model.zstn`);
  const { storedLength } = model.tensors.get("embedding");
  const oneRow = await model.plan("embedding", { rows: [5000, 5001] });
  assert.equal(oneRow.whole, false);
  assert.ok(oneRow.bytes < 400e3, `${oneRow.bytes} bytes for a row`);
  for (const [begin, end] of [[5000, 5010], [0, 100], [12_345, 13_345], [39_000, ROWS]]) {
    const before = { ...model.stats };
    const tensor = await model.tensor("embedding", { rows: [begin, end] });
    assert.deepEqual(tensor.shape, [end - begin, WIDTH]);
    assert.ok(rowsOf(begin, end).equals(tensor.bytes));
    const fetched = model.stats.bytesFetched - before.bytesFetched;
    const allowed = 3 * storedLength * ((end - begin) / ROWS) + oneRow.bytes;
    assert.ok(fetched <= allowed, `${fetched} bytes for rows ${begin} to ${end}, allowed are ${Math.round(allowed)}`);
    assert.equal(model.stats.roundTrips - before.roundTrips, 1);
    const { bytes, parts } = await model.plan("embedding", { rows: [begin, end] });
    assert.equal(bytes, parts.reduce((sum, { length }) => sum + length, 0));
    assert.ok(fetched >= bytes, "gaps between blocks may be fetched along, nothing is left out");
  }
});

test("of a plain file exactly the rows are fetched", async () => {
  const model = await open(`${server.url}model.safetensors`);
  const before = model.stats.bytesFetched;
  const { bytes } = await model.tensor("embedding", { rows: [7, 9] });
  assert.ok(rowsOf(7, 9).equals(bytes));
  assert.equal(model.stats.bytesFetched - before, 2 * rowBytes);
});

test("a tensor that is not stored in blocks is read whole, and the plan says so", async () => {
  const model = await open(path("model.zstn"));
  const { storedLength, parts } = model.tensors.get("few");
  assert.deepEqual(await model.plan("few", { rows: [3, 4] }), { whole: true, bytes: storedLength, parts });
  const all = await model.tensor("few");
  const rows = await model.tensor("few", { rows: [3, 5] });
  assert.deepEqual([rows.shape, [...rows.data]], [[2, 1000], [...all.data.subarray(3000, 5000)]]);
  assert.equal(rows.data.buffer.byteLength, 4000, "the rest of it is not kept");
  assert.deepEqual(await model.plan("embedding"), { whole: true, bytes: model.tensors.get("embedding").storedLength, parts: model.tensors.get("embedding").parts });
});

test("all rows, no rows, rows of nothing", async () => {
  const model = await open(path("model.zstn"));
  assert.ok(Buffer.from(embedding).equals((await model.tensor("embedding", { rows: [0, ROWS] })).bytes));
  assert.deepEqual((await model.tensor("embedding", { rows: [5, 5] })).shape, [0, WIDTH]);
  assert.deepEqual((await model.tensor("none", { rows: [0, 0] })).shape, [0, 7]);
});

test("rows that are not there are refused before anything is fetched", async () => {
  const model = await open(path("model.zstn"));
  const before = { ...model.stats };
  for (const rows of [[-1, 2], [0, ROWS + 1], [5, 4], [0.5, 2], [0, Number.NaN], ["0", "1"], [1]]) {
    await assert.rejects(model.tensor("embedding", { rows }), InvalidInputError, String(rows));
    await assert.rejects(model.plan("embedding", { rows }), InvalidInputError);
  }
  await assert.rejects(model.tensor("scalar", { rows: [0, 1] }), { name: "InvalidInputError", message: /scalar/ });
  assert.deepEqual({ ...model.stats }, before);
});

test("progress, abort and close", async () => {
  const model = await open(path("model.zstn"));
  const told = [];
  await model.tensor("embedding", { rows: [0, 50], onProgress: (progress) => told.push(progress) });
  const { bytes } = await model.plan("embedding", { rows: [0, 50] });
  assert.equal(told.at(-1).totalBytes, bytes);
  assert.ok(told.at(-1).loadedBytes >= bytes);
  await assert.rejects(model.tensor("embedding", { rows: [0, 1], signal: AbortSignal.abort(new Error("enough")) }), { message: "enough" });
  const reading = model.tensor("embedding", { rows: [0, 1] });
  model.close();
  await assert.rejects(reading, { code: "closed" });
  await assert.rejects(model.tensor("embedding", { rows: [0, 1] }), { code: "closed" });
});

test("a damaged block names the tensor; other rows can be read", async () => {
  const file = readFileSync(path("model.zstn"));
  const model = await open(file);
  const { parts } = await model.plan("embedding", { rows: [100, 101] });
  file[parts.at(-1).offset + 1000] ^= 4;
  const damaged = await open(new Uint8Array(file));
  await assert.rejects(damaged.tensor("embedding", { rows: [100, 101] }), { code: "malformed", tensor: "embedding", rule: "zstn.block_checksum" });
  assert.ok(rowsOf(30_000, 30_001).equals((await damaged.tensor("embedding", { rows: [30_000, 30_001] })).bytes));
});

test("rows of every kind of file are those of its tensors", async () => {
  for (const file of ["all_dtypes.zstn", "all_dtypes.safetensors"]) {
    const model = await open(vectorPath("zstn", file));
    for (const [name, { shape }] of model.tensors) {
      if (shape.length === 0 || shape[0] < 2) continue;
      const whole = await model.tensor(name);
      const cut = await model.tensor(name, { rows: [1, shape[0]] }).catch((error) => error);
      if (cut instanceof InvalidInputError) {
        assert.match(cut.message, /byte/, "elements of less than a byte");
        continue;
      }
      assert.deepEqual(Buffer.from(cut.bytes), Buffer.from(whole.bytes.subarray(whole.bytes.length / shape[0])), name);
    }
  }
});
