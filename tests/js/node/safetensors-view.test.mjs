/** Packed models as virtual safetensors files, which a safetensors reader reads in slices. */

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { open } from "zstn";
import { MIDDLE_TENSOR, safetensors, writeLanguageModel } from "../support/checkpoint.mjs";
import { convert, pack, serve } from "../support/cli.mjs";
import { readSafetensors } from "../support/safetensors-reader.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { goodContainers, goodDeltas, goodZTensors, readableByName, sha256, vectorPath } from "../support/vectors.mjs";

const scratch = scratchFolder();
const plain = join(scratch, "model.safetensors");
const packed = join(scratch, "model.zstn");
let [tensors, server, original] = [];

before(async () => {
  tensors = await writeLanguageModel(plain);
  await pack(plain, packed);
  original = readFileSync(plain);
  server = await serve(scratch);
});
after(() => server?.stop());

const whole = async (model) => Buffer.from(await model.asSafetensorsBlob().arrayBuffer());

test("a packed language model is the file that it was packed from, to the last byte", async () => {
  const model = await open(packed);
  const file = model.asSafetensorsBlob();
  assert.equal(file.size, original.length);
  assert.equal(file.type, "application/octet-stream");
  assert.equal(sha256(await whole(model)), sha256(original));
  const read = await readSafetensors(file);
  assert.deepEqual(read.metadata, { ...model.metadata });
  assert.deepEqual(read.names, Object.keys(tensors));
  for (const name of read.names) assert.equal(sha256(await read.bytesOf(name)), sha256(tensors[name].bytes), name);
});

test("a slice of many tensors does not make Node warn of listeners", async () => {
  const warnings = [];
  const hear = (warning) => warnings.push(warning.message);
  process.on("warning", hear);
  const model = await open(packed);
  assert.ok(model.tensors.size > 11);
  await whole(model);
  await new Promise((resolve) => setImmediate(resolve));
  process.off("warning", hear);
  assert.deepEqual(warnings, []);
});

for (const container of goodContainers.filter(readableByName)) {
  test(`${container.name}: the file that was packed, to the last byte`, async () => {
    const [model, expected] = [await open(vectorPath("zstn", container.container.file)), readFileSync(vectorPath("zstn", container.original.file))];
    const file = model.asSafetensorsBlob();
    assert.deepEqual([file.size, file.isOriginal], [expected.length, true]);
    assert.ok(expected.equals(await file.bytes()));
    for (const [begin, end] of [[0, 9], [7, expected.length - 1], [expected.length - 1, expected.length]]) {
      assert.ok(expected.subarray(begin, end).equals(await file.slice(begin, end).bytes()), `bytes ${begin} to ${end}`);
    }
  });
}

for (const vector of goodDeltas.filter(({ official_base, official_target }) => official_base.valid && official_target.valid)) {
  test(`${vector.name}: the target, to the last byte`, async () => {
    const delta = await open(vectorPath("zstn", vector.container.file), { base: vectorPath("zstn", vector.base.file) });
    assert.equal(delta.asSafetensorsBlob().isOriginal, true);
    assert.ok(readFileSync(vectorPath("zstn", vector.target.file)).equals(await whole(delta)));
  });
}

for (const { file } of goodZTensors.slice(0, 6)) {
  test(`${file} is the file that \`zstn convert\` makes of it`, async () => {
    const converted = join(scratch, `${file}.safetensors`);
    await convert(vectorPath("ztensor", file), converted);
    const model = await open(vectorPath("ztensor", file));
    const expected = readFileSync(converted);
    assert.deepEqual(await whole(model), expected);
    assert.equal(model.asSafetensorsBlob().slice(8).isOriginal, false);
  });
}

test("a plain file is itself, whatever its header looks like", async () => {
  const json = ` {"b":{"shape":[4],"dtype":"U8","data_offsets":[2,6]},\n"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`.slice(1).padEnd(104);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  const bytes = new Uint8Array(Buffer.concat([length, Buffer.from(json), Buffer.from([1, 2, 3, 4, 5, 6])]));
  const model = await open(bytes);
  const file = model.asSafetensorsBlob();
  const copy = await file.bytes();
  assert.deepEqual(copy, bytes);
  assert.notEqual(copy.buffer, bytes.buffer, "the caller may change what it got");
  assert.equal(file.size, model.size);
});

test("a shard that is packed is decoded, whether the first shard is packed or not", async () => {
  const [[a, first], [b, second]] = Object.entries(tensors);
  const files = { "model-1.safetensors": safetensors({ [a]: first }), "model-2.safetensors": safetensors({ [b]: second }) };
  const weight_map = { [a]: "model-1.safetensors", [b]: "model-2.safetensors" };
  const index = new TextEncoder().encode(JSON.stringify({ metadata: {}, weight_map }));
  const plainFile = await whole(await open(index, { siblings: (name) => files[name] && new Uint8Array(files[name]) }));
  for (const name of Object.keys(files)) {
    writeFileSync(join(scratch, name), files[name]);
    await pack(join(scratch, name), join(scratch, `${name}.packed`));
    const mixed = { ...files, [name]: readFileSync(join(scratch, `${name}.packed`)) };
    const model = await open(index, { siblings: (sibling) => mixed[sibling] && new Uint8Array(mixed[sibling]) });
    assert.ok(plainFile.equals(await whole(model)), `${name} is packed`);
  }
});

test("shards of plain files come as one file, of which only the bytes asked for are read", async () => {
  const shard = (names) => safetensors(Object.fromEntries(names.map((name) => [name, tensors[name]])));
  const names = Object.keys(tensors);
  const files = { "model-1.safetensors": shard(names.slice(0, 8)), "model-2.safetensors": shard(names.slice(8)) };
  const weight_map = Object.fromEntries(names.map((name, i) => [name, i < 8 ? "model-1.safetensors" : "model-2.safetensors"]));
  const index = new TextEncoder().encode(JSON.stringify({ metadata: {}, weight_map }));
  const model = await open(index, { siblings: (name) => files[name] && new Uint8Array(files[name]) });
  const read = await readSafetensors(model.asSafetensorsBlob());
  const before = model.stats.bytesFetched;
  const { data_offsets: [begin] } = read.entries[names[9]];
  assert.deepEqual([...read.names].sort(), [...names].sort());
  assert.ok(begin > 0);
  assert.equal(sha256(await read.bytesOf(names[9])), sha256(tensors[names[9]].bytes));
  assert.equal(model.stats.bytesFetched - before, tensors[names[9]].bytes.length);
});

test("a slice fetches the tensors it touches, once, and the header costs nothing", async () => {
  const model = await open(`${server.url}model.zstn`);
  const file = model.asSafetensorsBlob();
  const opened = { ...model.stats };
  const read = await readSafetensors(file);
  assert.deepEqual({ ...model.stats }, opened, "the header is made of what is known");
  const [begin, end] = read.entries[MIDDLE_TENSOR].data_offsets;
  const start = original.length - Math.max(...Object.values(read.entries).map(({ data_offsets }) => data_offsets[1]));
  for (let at = begin; at < end; at += 100_000) {
    const bytes = await file.slice(start + at, start + Math.min(at + 100_000, end)).bytes();
    assert.ok(original.subarray(start + at, start + Math.min(at + 100_000, end)).equals(bytes));
  }
  assert.equal(model.stats.requests - opened.requests, 1);
  assert.equal(model.stats.bytesFetched - opened.bytesFetched, model.tensors.get(MIDDLE_TENSOR).storedLength);
});

test("what does not fit into cacheBytes is fetched again", async () => {
  const model = await open(packed);
  const read = await readSafetensors(model.asSafetensorsBlob({ cacheBytes: 0 }));
  const requests = async (names) => {
    const before = model.stats.requests;
    for (const name of names) await read.bytesOf(name);
    return model.stats.requests - before;
  };
  const [a, b] = ["transformer.h.0.ln_1.weight", "transformer.h.0.ln_2.weight"];
  assert.equal(await requests([a, a, b, b, a]), 3, "only the last one is kept");
  await assert.rejects(async () => model.asSafetensorsBlob({ cacheBytes: -1 }), { name: "InvalidInputError" });
});

test("slices, types and texts are those of a real Blob", async () => {
  const bytes = readFileSync(vectorPath("zstn", "all_dtypes.safetensors"));
  const [real, virtual] = [new Blob([bytes], { type: "application/octet-stream" }), (await open(new Uint8Array(bytes))).asSafetensorsBlob()];
  const n = bytes.length;
  for (const args of [[], [0], [8, 20], [-10], [-10, -3], [5, 2], [n], [n - 1, n + 50], [-n - 9, 4], [undefined, 9, "Text/Plain"], [2, undefined]]) {
    const [a, b] = [real.slice(...args), virtual.slice(...args)];
    assert.deepEqual([b.size, b.type], [a.size, a.type], JSON.stringify(args));
    assert.deepEqual(Buffer.from(await b.arrayBuffer()), Buffer.from(await a.arrayBuffer()));
    assert.equal(await b.slice(1, 9).text(), await a.slice(1, 9).text(), "a slice of a slice");
  }
  // Node 20's own Blob does not support these arguments.
  assert.deepEqual([virtual.slice(1.7, 4.9).size, virtual.slice(Number.NaN, 3).size, virtual.slice(-1.5).size], [3, 3, 1]);
  assert.equal(await virtual.slice(8, 200).text(), await real.slice(8, 200).text());
});

test("the stream gives everything, and stops when it is cancelled or aborted", async () => {
  const model = await open(packed);
  const file = model.asSafetensorsBlob();
  const pieces = [];
  for await (const piece of file.stream()) pieces.push(piece);
  assert.ok(pieces.length > 5);
  assert.equal(sha256(Buffer.concat(pieces)), sha256(original));
  assert.deepEqual(await file.slice(3, 3).stream().getReader().read(), { done: true, value: undefined });

  const requests = model.stats.requests;
  const reader = file.stream().getReader();
  await reader.read();
  await reader.cancel();
  const some = model.stats.requests - requests;
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(model.stats.requests - requests, some);

  const reason = new Error("enough");
  await assert.rejects(file.arrayBuffer({ signal: AbortSignal.abort(reason) }), (error) => error === reason);
  const stop = new AbortController();
  const reading = file.slice(-1_000_000).arrayBuffer({ signal: stop.signal });
  stop.abort(reason);
  await assert.rejects(reading, (error) => error === reason);
});

test("a closed model has no file any more", async () => {
  const model = await open(packed);
  const file = model.asSafetensorsBlob();
  const reading = file.slice(-100).arrayBuffer();
  model.close();
  await assert.rejects(reading, { code: "closed" });
  await assert.rejects(file.slice(-100).arrayBuffer(), { code: "closed" });
  assert.throws(() => model.asSafetensorsBlob(), { code: "closed" });
});
