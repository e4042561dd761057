/** Decoding in workers gives the same bytes and errors as inline, even if workers fail. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Worker } from "node:worker_threads";
import { ZstnError, configure, open, workerPool } from "zstn";
import { MIDDLE_TENSOR, writeLanguageModel } from "../support/checkpoint.mjs";
import { pack } from "../support/cli.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { answerRange, startServer } from "../support/server.mjs";
import { badCompressed, badContainers, badDeltas, badGauss, badZTensors, goodCompressed, goodContainers, goodDeltas, goodGauss, goodZTensors, readableByName, vectorPath } from "../support/vectors.mjs";

const run = promisify(execFile);
const scratch = scratchFolder();
const packed = join(scratch, "model.zstn");
let tensors;

before(async () => {
  tensors = await writeLanguageModel(join(scratch, "model.safetensors"));
  await pack(join(scratch, "model.safetensors"), packed);
});

const everything = workerPool({ size: 2, minBytes: 0 });
after(() => everything.close());

const same = (bytes, name) => assert.ok(Buffer.from(bytes).equals(Buffer.from(tensors[name].bytes)), name);

/** Returns the bytes or the error of every tensor, or the error of opening. */
async function outcomes(source, options) {
  const words = ({ name, code, rule, offset, tensor, message }) => ({ name, code, rule, offset, tensor, message });
  let model;
  try {
    model = await open(source, options);
  } catch (error) {
    return words(error);
  }
  const reads = Array.from(model.tensors.keys(), (name) => model.tensor(name).then(({ data }) => data, words));
  const all = await Promise.all(reads);
  model.close();
  return all;
}

async function assertNoDifference(source, options = {}) {
  assert.deepEqual(await outcomes(source, { ...options, workers: everything }), await outcomes(source, { ...options, workers: 0 }));
}

/** Creates a model folder with a test vector of compressed-tensors, and returns the path of the weights. */
function weights(set, name) {
  const folder = mkdtempSync(join(scratch, "weights-"));
  copyFileSync(vectorPath(set, `${name}.config.json`), join(folder, "config.json"));
  copyFileSync(vectorPath(set, `${name}.safetensors`), join(folder, "model.safetensors"));
  return join(folder, "model.safetensors");
}

const files = {
  "containers": goodContainers.filter(readableByName).map(({ container }) => [vectorPath("zstn", container.file)]),
  "damaged containers": badContainers.map(({ file }) => [vectorPath("zstn-bad", file)]),
  "deltas": goodDeltas.map(({ container, base }) => [vectorPath("zstn", container.file), { base: vectorPath("zstn", base.file) }]),
  "damaged deltas": badDeltas.map(({ file, base }) => [vectorPath("zstn-bad", file), { base: vectorPath("zstn-bad", base.file) }]),
  "zTensor files": goodZTensors.map(({ file }) => [vectorPath("ztensor", file)]),
  "damaged zTensor files": badZTensors.map(({ file }) => [vectorPath("ztensor-bad", file)]),
  "Gauss files": goodGauss.map(({ name }) => [vectorPath("gauss", `${name}.gauss`)]),
  "damaged Gauss files": badGauss.map(({ file }) => [vectorPath("gauss-bad", file)]),
  "compressed-tensors": goodCompressed.map(({ name }) => [weights("compressed-tensors", name)]),
  "damaged compressed-tensors": badCompressed.map(({ name }) => [weights("compressed-tensors-bad", name)]),
};

for (const [what, sources] of Object.entries(files)) {
  test(`${what}: workers make no difference`, async () => {
    const before = everything.decoded;
    assert.ok(sources.length >= 8, `${sources.length} files`);
    for (const [source, options] of sources) await assertNoDifference(source, options);
    if (!what.startsWith("damaged")) assert.ok(everything.decoded > before, "workers have had a part in it");
  });
}

test("large tensors go to workers, small ones and plain files do not", async () => {
  const pool = workerPool({ size: 2 });
  const model = await open(packed, { workers: pool });
  await model.tensor("transformer.ln_f.weight");
  assert.deepEqual([pool.decoded, pool.running], [0, 0]);
  const [tensor] = await Promise.all([model.tensor(MIDDLE_TENSOR), model.tensor("lm_head.weight")]);
  same(tensor.bytes, MIDDLE_TENSOR);
  assert.deepEqual([pool.decoded, pool.running, pool.startError], [2, 2, undefined]);
  const plain = await open(join(scratch, "model.safetensors"), { workers: pool });
  same((await plain.tensor(MIDDLE_TENSOR)).bytes, MIDDLE_TENSOR);
  assert.equal(pool.decoded, 2);
  pool.close();
  assert.equal(pool.running, 0);
  same((await model.tensor(MIDDLE_TENSOR)).bytes, MIDDLE_TENSOR);
  assert.equal(pool.decoded, 2, "without its pool a model goes on alone");
});

test("a stream comes in order, with progress and costs as without workers", async () => {
  const seen = {};
  for (const workers of [0, 2]) {
    const model = await open(packed, { workers });
    const names = [];
    let last;
    for await (const tensor of model.stream(undefined, { readAheadBytes: 16 << 20, onProgress: (progress) => (last = progress) })) {
      same(tensor.bytes, tensor.name);
      names.push(tensor.name);
    }
    assert.equal(last.loadedBytes, last.totalBytes);
    seen[workers] = { names, last, stats: { ...model.stats } };
    model.close();
  }
  assert.deepEqual(seen[2].names, seen[0].names);
  assert.deepEqual(seen[2].last, seen[0].last);
  assert.equal(seen[2].stats.bytesFetched, seen[0].stats.bytesFetched);
});

test("the caller's bytes, and those of a cache, are still there", async () => {
  const bytes = new Uint8Array(readFileSync(packed));
  const copy = bytes.slice();
  const model = await open(bytes, { workers: everything });
  for (let round = 0; round < 2; round++) same((await model.tensor(MIDDLE_TENSOR)).bytes, MIDDLE_TENSOR);
  assert.ok(Buffer.from(bytes).equals(Buffer.from(copy)));
  const server = await startServer((request, response) => answerRange(request, response, copy, { etag: '"1"' }));
  const remote = await open(server.url, { workers: everything, cache: 64e6 });
  // Both read the same range in one request, and the third read finds it in the cache.
  const both = await Promise.all([remote.tensor(MIDDLE_TENSOR), remote.tensor(MIDDLE_TENSOR)]);
  for (const tensor of [...both, await remote.tensor(MIDDLE_TENSOR), await remote.tensor(MIDDLE_TENSOR)]) same(tensor.bytes, MIDDLE_TENSOR);
  assert.equal(remote.stats.cacheHits, 2);
  assert.notEqual(both[0].data.buffer, both[1].data.buffer);
  await server.stop();
});

test("an abort ends what waits and what is under way, and nothing else", async () => {
  const pool = workerPool({ size: 1 });
  const model = await open(packed, { workers: pool });
  const stop = new AbortController();
  const names = [...model.tensors.keys()].filter((name) => model.tensors.get(name).byteLength > 1 << 20);
  const aborted = names.slice(1).map((name) => assert.rejects(model.tensor(name, { signal: stop.signal }), { message: "enough" }));
  const kept = model.tensor(names[0]);
  // A worker that has just been created has decoded nothing yet.
  while (pool.running === 0) await new Promise((resolve) => setImmediate(resolve));
  stop.abort(new Error("enough"));
  await Promise.all(aborted);
  same((await kept).bytes, names[0]);
  assert.ok(pool.decoded < names.length);
  pool.close();
});

test("closing a model ends its own workers, and leaves a pool that is shared", async () => {
  const own = await open(packed, { workers: 1 });
  const reading = own.tensor(MIDDLE_TENSOR);
  own.close();
  await assert.rejects(reading, { code: "closed" });
  const pool = workerPool({ size: 1 });
  const [one, other] = [await open(packed, { workers: pool }), await open(packed, { workers: pool })];
  await one.tensor(MIDDLE_TENSOR);
  one.close();
  same((await other.tensor(MIDDLE_TENSOR)).bytes, MIDDLE_TENSOR);
  assert.equal(pool.running, 1);
  pool.close();
});

/** Returns a function that creates workers that run `script` before the package's own script. */
const scripted = (script) => () => new Worker(new URL(`data:text/javascript,${encodeURIComponent(`${script}; await import(${JSON.stringify(import.meta.resolve("zstn/worker"))});`)}`));

test("a worker that ends in the middle is an error of its tensor, and the next one works", async () => {
  let started = 0;
  const dies = scripted('import { parentPort } from "node:worker_threads"; parentPort.once("message", () => process.exit(7))');
  const works = scripted("");
  configure({ createWorker: () => (started++ === 0 ? dies() : works()) });
  const pool = workerPool({ size: 1 });
  const model = await open(packed, { workers: pool });
  const names = [MIDDLE_TENSOR, "lm_head.weight"];
  const results = await Promise.allSettled(names.map((name) => model.tensor(name)));
  // The tensor whose request reached the worker first is rejected.
  const unlucky = results.findIndex(({ status }) => status === "rejected");
  const { reason } = results[unlucky];
  assert.equal(reason.name, "WorkerError");
  assert.ok(reason instanceof ZstnError);
  assert.deepEqual([reason.code, reason.tensor], ["worker", names[unlucky]]);
  assert.match(reason.message, /status 7/);
  same(results[1 - unlucky].value.bytes, names[1 - unlucky]);
  same((await model.tensor(MIDDLE_TENSOR)).bytes, MIDDLE_TENSOR);
  assert.equal(started, 2);
  pool.close();
});

test("closing a pool ends what a worker hangs in", async () => {
  const hangs = scripted('import { parentPort } from "node:worker_threads"; parentPort.once("message", () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0))');
  configure({ createWorker: hangs });
  const pool = workerPool({ size: 1 });
  const model = await open(packed, { workers: pool });
  const reads = [MIDDLE_TENSOR, "lm_head.weight"].map((name) => assert.rejects(model.tensor(name), { name: "WorkerError", code: "worker", tensor: name }));
  setTimeout(() => pool.close(), 200);
  await Promise.all(reads);
});

for (const [what, createWorker] of Object.entries({
  "cannot be made": () => { throw new Error("no workers here"); },
  "cannot load its script": () => new Worker(new URL("./no-such-worker.mjs", import.meta.url)),
  "ends before it begins": scripted("process.exit(0)"),
})) {
  test(`where a worker ${what}, tensors are decoded all the same`, async () => {
    configure({ createWorker });
    const pool = workerPool({ size: 3 });
    const model = await open(packed, { workers: pool });
    const names = ["lm_head.weight", MIDDLE_TENSOR, "transformer.wpe.weight"];
    for (const tensor of await Promise.all(names.map((name) => model.tensor(name)))) same(tensor.bytes, tensor.name);
    assert.deepEqual([pool.decoded, pool.running], [0, 0]);
    assert.ok(pool.startError instanceof Error);
  });
}

test("a program ends by itself, and not before it has its tensors", async () => {
  const program = join(scratch, "program.mjs");
  const text = `
    import { open } from ${JSON.stringify(import.meta.resolve("zstn"))};
    const model = await open(${JSON.stringify(packed)}, ...JSON.parse(process.argv[2]));
    for (const name of ["lm_head.weight", ${JSON.stringify(MIDDLE_TENSOR)}]) console.log((await model.tensor(name)).bytes.length);
  `;
  writeFileSync(program, text);
  for (const options of [[], [{ workers: 2 }]]) {
    const { stdout } = await run(process.execPath, [program, JSON.stringify(options)], { timeout: 20_000 });
    assert.deepEqual(stdout.trim().split("\n").map(Number), [4800 * 512 * 2, 512 * 1536 * 2]);
  }
});

test("a program on the command line has workers, too", async () => {
  const text = `
    import { open, workerPool } from ${JSON.stringify(import.meta.resolve("zstn"))};
    const pool = workerPool();
    await (await open(${JSON.stringify(packed)}, { workers: pool })).tensor("lm_head.weight");
    console.log(pool.decoded);
  `;
  const { stdout } = await run(process.execPath, ["--input-type=module", "-e", text], { timeout: 20_000 });
  assert.equal(stdout, "1\n");
});

test("a number of workers that is none is refused", async () => {
  for (const workers of [-1, 1.5, NaN]) await assert.rejects(open(packed, { workers }), { code: "invalid_input", message: /number of workers/ });
  assert.throws(() => workerPool({ minBytes: -1 }), { code: "invalid_input" });
});

test("the script of a worker is where the package says", () => {
  assert.match(fileURLToPath(import.meta.resolve("zstn/worker")), /node-worker\.js$/);
});
