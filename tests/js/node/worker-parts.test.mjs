/** A large tensor is decoded in bands by several workers, with the same bytes and errors as by one. */

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { Worker } from "node:worker_threads";
import { configure, open, pack, workerPool } from "zstn";
import { bf16Tensor, safetensors, xorshift } from "../support/checkpoint.mjs";
import { answerRange, startServer } from "../support/server.mjs";

/** The length of the tensors, which is enough for several bands. */
const LENGTH_BYTES = 5 << 20;
/** Tensors of 64 times this length, 4 MiB, may be divided. */
const MIN_BYTES = 64 << 10;
const random = xorshift(7);

/** Returns a tensor of rows of 1000 elements. The rows do not end where blocks end. */
function tensor(dtype, itemBytes, bytes) {
  const rows = Math.ceil(LENGTH_BYTES / itemBytes / 1000);
  return { dtype, shape: [rows, 1000], bytes: bytes(rows * 1000) };
}

function filled(Type, value) {
  return (elements) => new Uint8Array(new Type(elements).map(value).buffer);
}

const noise = () => random() / 2 ** 32 - 0.5;
const TENSORS = {
  bf16: () => tensor("BF16", 2, (elements) => bf16Tensor(elements, random)),
  f16: () => tensor("F16", 2, filled(Uint16Array, () => ((random() & 0x83ff) | 0x2400) + ((random() & 3) << 10))),
  f32: () => tensor("F32", 4, filled(Float32Array, () => noise() / 10)),
  f64: () => tensor("F64", 8, filled(Float64Array, noise)),
  f8: () => tensor("F8_E4M3", 1, filled(Uint8Array, () => 40 + (random() & random() & 31))),
  i64: () => tensor("I64", 8, filled(BigInt64Array, (_, i) => BigInt(i * 3 + (random() & 255)))),
  u8: () => tensor("U8", 1, filled(Uint8Array, random)),
};

/** The tensors with a plane that is one block, or with no coded plane, which one worker decodes. */
const WHOLE = ["f64", "i64", "u8"];

let tensors;
let packed;

async function packedFile(tensors, options) {
  const { blob } = await pack(new Blob([safetensors(tensors)]), options);
  return new Uint8Array(await blob.arrayBuffer());
}

before(async () => {
  tensors = Object.fromEntries(Object.entries(TENSORS).map(([name, make]) => [name, make()]));
  packed = await packedFile(tensors);
});

const same = (bytes, expected, what) => assert.ok(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).equals(Buffer.from(expected)), what);

/** Opens a model with a pool of three workers, and closes both after `work`. */
async function withPool(source, work, options = {}) {
  const pool = workerPool({ size: 3, minBytes: MIN_BYTES });
  const model = await open(source, { workers: pool, ...options });
  try {
    return await work(model, pool);
  } finally {
    model.close();
    pool.close();
  }
}

test("tensors of every dtype are restored, into new arrays and into given ones, and those of several blocks by several workers", async () => {
  for (const [name, { bytes }] of Object.entries(tensors)) {
    await withPool(packed, async (model, pool) => {
      const into = new Uint8Array(bytes.byteLength + 16);
      same((await model.tensor(name)).bytes, bytes, name);
      assert.deepEqual([pool.decoded, pool.running, pool.startError], [1, WHOLE.includes(name) ? 1 : 3, undefined], name);
      const { data } = await model.tensor(name, { into: into.subarray(8, 8 + bytes.byteLength) });
      assert.deepEqual([data.buffer, data.byteOffset], [into.buffer, 8]);
      same(into.subarray(8, 8 + bytes.byteLength), bytes, name);
      assert.deepEqual([...into.subarray(0, 8), ...into.subarray(-8)], Array(16).fill(0), "nothing is written around it");
    });
  }
});

test("the tensors have planes of all common methods", async () => {
  const model = await open(packed, { workers: 0 });
  const planes = await Promise.all(Object.keys(tensors).map((name) => model.planes(name)));
  assert.deepEqual([...new Set(planes.flat().map(({ method }) => method))].sort(), ["rANS order 1", "store", "zstd", "zstd blocks"]);
});

for (const [what, options] of Object.entries({ "effort fast": { effort: "fast" }, "effort max": { effort: "max" }, "extension frames": { extended: true } })) {
  test(`${what}: the same bytes`, async () => {
    const some = { bf16: tensors.bf16, f32: tensors.f32 };
    await withPool(await packedFile(some, options), async (model) => {
      const read = await Promise.all(Object.keys(some).map((name) => model.tensor(name)));
      for (const { name, bytes } of read) same(bytes, some[name].bytes, name);
    });
  });
}

test("a delta, its base, and rows read at the same time", async () => {
  const tuned = tensors.bf16.bytes.slice();
  for (let i = 0; i < tuned.length; i += 64) tuned[i] ^= 1;
  const base = await packedFile({ w: tensors.bf16 });
  const delta = await packedFile({ w: { ...tensors.bf16, bytes: tuned } }, { base });
  await withPool(delta, async (model) => {
    const [whole, ofBase, rows] = await Promise.all([model.tensor("w"), model.base.tensor("w"), model.base.tensor("w", { rows: [100, 1100] })]);
    same(whole.bytes, tuned);
    same(ofBase.bytes, tensors.bf16.bytes);
    same(rows.bytes, tensors.bf16.bytes.subarray(100 * 2000, 1100 * 2000));
  }, { base });
});

test("digests are compared with `verify: \"full\"`", async () => {
  await withPool(packed, async (model) => same((await model.tensor("bf16")).bytes, tensors.bf16.bytes), { verify: "full" });
});

/** Returns the words of an error, or the bytes that were read. */
const outcome = (read) => read.then(({ bytes }) => Buffer.from(bytes), ({ name, code, rule, offset, tensor, message }) => ({ name, code, rule, offset, tensor, message }));

test("a damaged block is the same error as without workers", async () => {
  const { offset, length } = (await open(packed, { workers: 0 })).tensors.get("bf16").parts[0];
  for (const at of [offset + 200_000, offset + length / 2, offset + length - 1000]) {
    const damaged = packed.slice();
    damaged[Math.floor(at)] ^= 4;
    const alone = await outcome((await open(damaged, { workers: 0 })).tensor("bf16"));
    assert.deepEqual([alone.name, alone.tensor], ["FormatError", "bf16"]);
    await withPool(damaged, async (model) => {
      assert.deepEqual(await outcome(model.tensor("bf16")), alone);
      same((await model.tensor("f32")).bytes, tensors.f32.bytes, "the pool goes on");
    });
  }
});

test("damage outside the blocks does not matter: bands are decoded by the block table", async () => {
  const damaged = packed.slice();
  damaged[(await open(packed, { workers: 0 })).tensors.get("bf16").parts[0].offset + 5] ^= 4;
  await assert.rejects((await open(damaged, { workers: 0 })).tensor("bf16"), { name: "FormatError" });
  await withPool(damaged, async (model) => same((await model.tensor("bf16")).bytes, tensors.bf16.bytes));
});

/** Finds the block tables, which end where the index begins. */
function tablesOf(bytes) {
  const view = new DataView(bytes.buffer);
  const at = Buffer.from(bytes.buffer).lastIndexOf("BLKS");
  const lengths = Array.from({ length: Number(view.getBigUint64(at + 4, true)) / 4 }, (_, i) => view.getUint32(at + 12 + 4 * i, true)).filter((length) => length > 0);
  let begin = Number(view.getBigUint64(bytes.length - 20, true)) - lengths.reduce((sum, length) => sum + length, 0);
  return lengths.map((length) => ({ begin, end: (begin += length) }));
}

test("with damaged block tables, tensors are decoded by one worker each", async () => {
  const damaged = packed.slice();
  for (const { begin, end } of tablesOf(damaged)) damaged[(begin + end) >> 1] ^= 1;
  await withPool(damaged, async (model, pool) => {
    same((await model.tensor("bf16")).bytes, tensors.bf16.bytes);
    assert.deepEqual([pool.decoded, pool.running], [1, 1]);
  });
});

test("over HTTP, a block table that has arrived with the index costs no request", async (t) => {
  const server = await startServer((request, response) => answerRange(request, response, packed, { etag: '"1"' }));
  t.after(server.stop);
  await withPool(server.url, async (model, pool) => {
    const opened = server.requests.length;
    same((await model.tensor("f32")).bytes, tensors.f32.bytes);
    assert.deepEqual([pool.running, server.requests.length - opened], [3, 1]);
  });
});

/** Lets the workers of a test call `told.whenSent` once they have been sent a band. */
function tellOfBands(t) {
  const told = { whenSent: () => {} };
  class TellingWorker extends Worker {
    postMessage(...message) {
      super.postMessage(...message);
      told.whenSent();
    }
  }
  configure({ createWorker: () => new TellingWorker(new URL(import.meta.resolve("zstn/worker"))) });
  t.after(() => configure({ createWorker: undefined }));
  return told;
}

test("an abort in the middle ends all bands, and the pool goes on", async (t) => {
  const told = tellOfBands(t);
  await withPool(packed, async (model, pool) => {
    same((await model.tensor("f32")).bytes, tensors.f32.bytes);
    const stop = new AbortController();
    told.whenSent = () => stop.abort(new Error("enough"));
    await assert.rejects(model.tensor("bf16", { signal: stop.signal }), { message: "enough" });
    told.whenSent = () => {};
    same((await model.tensor("u8")).bytes, tensors.u8.bytes);
    assert.equal(pool.decoded, 2);
  });
});

/** Runs before the package's own script. The first worker to receive a band exits; which one that is depends on how fast they start. */
const FIRST_BAND_ENDS = 'import { parentPort, workerData } from "node:worker_threads"; parentPort.once("message", () => Atomics.exchange(workerData, 0, 1) || process.exit(7));';

test("a worker that ends with a band is an error of the tensor, and the next read works", async (t) => {
  let started = 0;
  const ended = new Int32Array(new SharedArrayBuffer(4));
  const script = new URL(`data:text/javascript,${encodeURIComponent(`${FIRST_BAND_ENDS} await import(${JSON.stringify(import.meta.resolve("zstn/worker"))});`)}`);
  configure({ createWorker: () => (started++, new Worker(script, { workerData: ended })) });
  t.after(() => configure({ createWorker: undefined }));
  await withPool(packed, async (model) => {
    await assert.rejects(model.tensor("f32"), { name: "WorkerError", code: "worker", tensor: "f32", message: /status 7/ });
    same((await model.tensor("f32")).bytes, tensors.f32.bytes);
    assert.equal(started, 4);
  });
});

test("closing the pool ends all bands", async (t) => {
  const told = tellOfBands(t);
  const pool = workerPool({ size: 2, minBytes: MIN_BYTES });
  const model = await open(packed, { workers: pool });
  await model.tensor("bf16");
  told.whenSent = () => pool.close();
  await assert.rejects(model.tensor("f32"), { name: "WorkerError", tensor: "f32" });
  same((await model.tensor("f32")).bytes, tensors.f32.bytes, "the model goes on alone");
});

test("shorter tensors, pools of one, and enough other work leave tensors whole", async () => {
  const short = { w: { dtype: "BF16", shape: [1 << 20], bytes: bf16Tensor(1 << 20, random) } };
  await withPool(await packedFile(short), async (model, pool) => {
    same((await model.tensor("w")).bytes, short.w.bytes);
    assert.deepEqual([pool.decoded, pool.running], [1, 1]);
  });
  const one = workerPool({ size: 1, minBytes: MIN_BYTES });
  const model = await open(packed, { workers: one });
  const all = await Promise.all(Object.keys(tensors).map((name) => model.tensor(name)));
  for (const { name, bytes } of all) same(bytes, tensors[name].bytes, name);
  assert.deepEqual([one.decoded, one.running], [all.length, 1]);
  one.close();
});
