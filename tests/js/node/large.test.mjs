/**
 * A file of 6 GB, most of it a hole: positions above 2^32 are read correctly, and tensors too long for an array are
 * rejected without being read.
 */

import assert from "node:assert/strict";
import { openSync, closeSync, ftruncateSync, rmSync, statSync, writeSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { open } from "zstn";
import { scratchFolder } from "../support/scratch.mjs";

const GB = 1e9;
const path = join(scratchFolder(), "large.safetensors");
const end = 6 * GB;
const spans = { hole: [0, 3 * GB], wide: [3 * GB, 4 * GB], far: [4 * GB, 4 * GB + 16], hole2: [4 * GB + 16, 6 * GB - 8], last: [6 * GB - 8, end] };
const far = Float32Array.of(1.5, -2, 3e38, 2 ** -140);
const last = BigInt64Array.of(-(2n ** 62n));

before(() => {
  const shapes = { far: [4], last: [1] };
  const dtypes = { far: "F32", last: "I64" };
  const entries = Object.entries(spans).map(([name, [begin, end]]) => [name, { dtype: dtypes[name] ?? "U8", shape: shapes[name] ?? [end - begin], data_offsets: [begin, end] }]);
  const json = JSON.stringify(Object.fromEntries(entries));
  const header = json.padEnd(Math.ceil(json.length / 8) * 8);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  const file = openSync(path, "w");
  writeSync(file, Buffer.concat([length, Buffer.from(header)]));
  ftruncateSync(file, 8 + header.length + end);
  writeSync(file, new Uint8Array(far.buffer), 0, 16, 8 + header.length + spans.far[0]);
  writeSync(file, new Uint8Array(last.buffer), 0, 8, 8 + header.length + spans.last[0]);
  closeSync(file);
  assert.ok(statSync(path).blocks * 512 < 1e6, "it takes no place on this disk");
});
after(() => rmSync(path, { force: true }));

test("tensors beyond 4 GiB are read from where they are", async () => {
  const model = await open(path);
  assert.ok(model.size > 6 * GB && model.tensors.get("last").parts[0].offset > 2 ** 32);
  const read = [];
  for await (const { data } of model.stream(["last", "far"])) read.push(data);
  assert.deepEqual(read, [last, far]);
  assert.deepEqual((await model.tensor("last")).data, last);
});

test("some rows of a tensor that no array can hold can be read, too many of them cannot", async () => {
  const model = await open(path);
  const { data } = await model.tensor("hole", { rows: [3 * GB - 7, 3 * GB] });
  assert.deepEqual(data, new Uint8Array(7));
  const before = { ...model.stats };
  await assert.rejects(model.tensor("hole", { rows: [0, 2 ** 31] }), { name: "LimitError", tensor: "hole", message: /2147483648 bytes.*`rows` or `select`/ });
  assert.deepEqual({ ...model.stats }, before);
});

test("a tensor that no array can hold is refused before a byte of it is fetched", async () => {
  const model = await open(path);
  const before = { ...model.stats };
  const refusal = { name: "LimitError", code: "limit", tensor: "hole", message: /3000000000 bytes.*zstn get/ };
  await assert.rejects(model.tensor("hole"), refusal);
  await assert.rejects(model.stream(["far", "hole"]).next(), refusal);
  assert.deepEqual({ ...model.stats }, before);
});
