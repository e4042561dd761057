/**
 * Packed files of other formats than safetensors: their tensors, values and metadata are those of the original, and
 * ranges of the original are decoded from the frames that contain them.
 */

import assert from "node:assert/strict";
import { once } from "node:events";
import { copyFileSync, existsSync, mkdirSync, readFileSync, statSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { configure, open, unpack } from "zstn";
import { safetensors, xorshift } from "../support/checkpoint.mjs";
import { pack, packAll } from "../support/cli.mjs";
import { ggufFile } from "../support/gguf.mjs";
import { onnxModel } from "../support/onnx-model.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { answerRange, startServer } from "../support/server.mjs";
import { torchFile, zipFile } from "../support/torch.mjs";
import { goodForeign, isFirstOfSet, vectorPath } from "../support/vectors.mjs";

const FOLDERS = ["gguf", "npy", "npz", "pytorch", "onnx", "msgpack", "tflite", "hdf5", "keras", "tar"];
const scratch = scratchFolder();
const module = (name) => readFileSync(new URL(`../../../wasm/dist/core/${name}_bg.wasm`, import.meta.url));
let server;

/** The values of the large tensors: F32 of about the same size. */
const random = xorshift(36);
const LARGE = new Uint8Array(Float32Array.from({ length: 3 << 18 }, () => 1 + random() / 2 ** 35).buffer);
const ROW_BYTES = 3 << 10;

/** The values of a tensor that is longer than the cache of decoded entries. */
const LONG = Buffer.concat(Array(22).fill(LARGE));

/** Returns an NPZ file of one array, in the order of Fortran. */
function npzFile(shape, values) {
  const header = Buffer.from(`{'descr': '<f4', 'fortran_order': True, 'shape': (${shape}), }`.padEnd(117) + "\n");
  return zipFile({ "array.npy": Buffer.concat([Buffer.from("\x93NUMPY\x01\x00\x76\x00", "latin1"), header, values]) });
}

/** A storage of 12 MiB: one tensor for all of it, eight views of 1.5 MiB, and small tensors in a small storage. */
const STORAGE = new Uint8Array(Float32Array.from({ length: 3 << 20 }, () => 1 + random() / 2 ** 35).buffer);
const LONG_STORAGE = Buffer.concat(Array(6).fill(STORAGE));
const VIEW_BYTES = STORAGE.length / 8;
const PARTS = Array.from({ length: 8 }, (_, i) => ({ name: `part.${i}`, shape: [VIEW_BYTES / 4096, 1024], offset: (i * VIEW_BYTES) / 4 }));
const viewBytes = (i) => STORAGE.slice(i * VIEW_BYTES, (i + 1) * VIEW_BYTES);

/** Small tensors, without an entry of their own. */
const SMALL = Array.from({ length: 60 }, (_, i) => ({ name: `small.${i}`, shape: [1000], offset: 1000 * i }));

before(async () => {
  for (const folder of FOLDERS) {
    mkdirSync(join(scratch, folder));
    await packAll(goodForeign(folder).map(({ file }) => vectorPath(folder, file)), join(scratch, folder));
  }
  mkdirSync(join(scratch, "unprotected"));
  const inputs = {
    "large.gguf": ggufFile({ "general.name": "large" }, [
      { name: "large", shape: [1024, ROW_BYTES / 4], bytes: LARGE },
      { name: "small", shape: [3], bytes: LARGE.subarray(0, 12) },
    ]),
    // Its metadata are long enough for a worker to decode them.
    "text.gguf": ggufFile({ text: Buffer.from(LARGE.subarray(0, 200_000)).toString("hex") }, [{ name: "small", shape: [3], bytes: LARGE.subarray(0, 12) }]),
    // The frame of its metadata ends after the head of the packed file, and before the 64 KiB that are read ahead.
    "notes.gguf": ggufFile({ text: Buffer.from(LARGE.subarray(0, 40_000)).toString("hex") }, [{ name: "large", shape: [1024, ROW_BYTES / 4], bytes: LARGE }]),
    "large.onnx": onnxModel([
      { name: "first", shape: [1024, ROW_BYTES], raw: LARGE },
      { name: "middle", shape: [64, ROW_BYTES], raw: LARGE.subarray(0, 64 * ROW_BYTES) },
      { name: "long", shape: [LONG.length / ROW_BYTES, ROW_BYTES], raw: LONG },
      { name: "last", shape: [3], raw: [7, 8, 9] },
      { name: "far", shape: [2], external: { location: "far.bin" } },
    ]),
    "views.pt": torchFile(STORAGE, [{ name: "flat", shape: [STORAGE.length / 4], offset: 0 }, ...PARTS]),
    "long-views.pt": torchFile(LONG_STORAGE, [{ name: "flat", shape: [LONG_STORAGE.length / 4], offset: 0 }, { name: "a", shape: [1 << 18], offset: 0 }, { name: "b", shape: [1 << 18], offset: 1 << 18 }]),
    "small.pt": torchFile(LARGE.subarray(0, 240_000), SMALL),
    "fortran.npz": npzFile([1024, ROW_BYTES / 4], LARGE),
    "noise.bin": LARGE.subarray(0, 5000),
  };
  for (const [name, bytes] of Object.entries(inputs)) writeFileSync(join(scratch, name), bytes);
  await packAll(Object.keys(inputs).map((name) => join(scratch, name)), scratch);
  server = await startServer((request, response) => {
    const path = join(scratch, request.url);
    return existsSync(path) ? answerRange(request, response, readFileSync(path)) : response.writeHead(404).end();
  });
});
after(() => server?.stop());

/** Checks that two models have the same tensors, rows, metadata and unreadable tensors. */
async function assertSame(packed, plain) {
  assert.deepEqual([...packed.tensors.keys()].sort(), [...plain.tensors.keys()].sort());
  assert.deepEqual([...packed.unreadable.keys()].sort(), [...plain.unreadable.keys()].sort());
  assert.deepEqual(packed.metadata, plain.metadata);
  for (const [name, { dtype, shape, format, originalLength }] of plain.tensors) {
    const info = packed.tensors.get(name);
    assert.deepEqual([info.dtype, info.shape, info.format, info.originalLength], [dtype, shape, format, originalLength], name);
    const [tensor, truth] = [await packed.tensor(name), await plain.tensor(name)];
    assert.deepEqual(tensor.bytes, truth.bytes, name);
    if (shape[0] > 1) {
      const rows = { rows: [1, 2] };
      assert.deepEqual((await packed.tensor(name, rows)).bytes, (await plain.tensor(name, rows)).bytes, name);
    }
  }
}

test("a packed safetensors file does not load the module with all formats", async () => {
  const model = await open(vectorPath("zstn", "all_dtypes.zstn"));
  await model.tensor([...model.tensors.keys()][0]);
  configure({ wasm: { formats: module("zstn_formats") } });
});

for (const folder of FOLDERS) {
  test(`${folder}: a packed file has the tensors, values and metadata of the original`, async () => {
    for (const { file } of goodForeign(folder).filter(({ file }) => !isFirstOfSet(file))) {
      const path = join(scratch, folder, `${file}.zstn`);
      const plain = await open(vectorPath(folder, file));
      for (const options of [{}, { verify: "full", workers: 0 }]) {
        const packed = await open(path, options);
        await assertSame(packed, plain);
        assert.equal(packed.size, statSync(path).size, file);
        packed.close();
      }
      plain.close();
    }
  });
}

test("a packed GGUF file: opening reads the index and the header of the original, and rows the blocks that contain them", async () => {
  const model = await open(`${server.url}large.gguf.zstn`);
  assert.equal(model.metadata["general.name"], "large");
  // The head of the file contains the header of the original.
  assert.ok(model.stats.requests <= 2 && model.stats.bytesFetched < 70_000, JSON.stringify(model.stats));
  const { requests, bytesFetched } = model.stats;
  const rows = await model.tensor("large", { rows: [500, 502] });
  assert.deepEqual(rows.bytes, LARGE.slice(500 * ROW_BYTES, 502 * ROW_BYTES));
  assert.ok(model.stats.requests <= requests + 4 && model.stats.bytesFetched < bytesFetched + 500_000, JSON.stringify(model.stats));
  assert.deepEqual((await model.tensor("large")).bytes, LARGE);
});

test("a packed GGUF file: the frame with the header of the original is fetched together with the index", async () => {
  const [model, plain] = await Promise.all([open(`${server.url}notes.gguf.zstn`), open(join(scratch, "notes.gguf"))]);
  assert.ok(model.stats.roundTrips === 2 && model.stats.bytesFetched < 150_000, JSON.stringify(model.stats));
  await assertSame(model, plain);
  // A longer frame takes a third round trip, which fetches the rest of it.
  const long = await open(`${server.url}text.gguf.zstn`);
  assert.ok(long.stats.bytesFetched < statSync(join(scratch, "text.gguf.zstn")).size + 70_000, JSON.stringify(long.stats));
  assert.equal(long.metadata.text.slice(0, 100), plain.metadata.text.slice(0, 100));
  for (const each of [model, plain, long]) each.close();
});

test("a packed NPZ file: opening decodes no arrays", async () => {
  const model = await open(`${server.url}fortran.npz.zstn`);
  assert.deepEqual([model.kind, model.metadata], ["zstn", {}]);
  assert.ok(model.stats.bytesFetched < 200_000, JSON.stringify(model.stats));
  const plain = await open(join(scratch, "fortran.npz"));
  await assertSame(model, plain);
});

test("a packed ONNX file: tensors are read from parts of long spans, concurrently and again", async () => {
  const model = await open(`${server.url}large.onnx.zstn`);
  assert.deepEqual([...model.tensors.keys()], ["first", "middle", "long", "last"]);
  assert.match(model.unreadable.get("far").message, /far\.bin.*beside the model/);
  const { bytesFetched } = model.stats;
  assert.ok(bytesFetched < 1_000_000, JSON.stringify(model.stats));
  for (const [name, row] of [["first", 9], ["first", 1022], ["first", 1023], ["long", 1024], ["long", 1025], ["long", 1026]]) {
    const { bytes } = await model.tensor(name, { rows: [row, row + 1] });
    assert.deepEqual(bytes, LARGE.slice((row % 1024) * ROW_BYTES, ((row % 1024) + 1) * ROW_BYTES), `row ${row} of ${name}`);
  }
  assert.ok(model.stats.bytesFetched < bytesFetched + 2_000_000, JSON.stringify(model.stats));
  const all = await Promise.all(["first", "last", "first"].map((name) => model.tensor(name)));
  assert.deepEqual(all.map(({ bytes }) => bytes), [LARGE, Uint8Array.of(7, 8, 9), LARGE]);
  const reading = model.tensor("first");
  model.close();
  await assert.rejects(reading, { code: "closed" });
  await assert.rejects(model.tensor("last"), { code: "closed" });
});

test("a packed ONNX file: closing a model at any point of a read leaves the other models readable", async () => {
  const bytes = readFileSync(join(scratch, "large.onnx.zstn"));
  const other = await open(bytes);
  const outcomes = new Set();
  for (let turns = 0; turns < 60; turns++) {
    const model = await open(bytes);
    const outcome = model.tensor("middle", { rows: [3, 4] }).then(() => "read", ({ code }) => code);
    for (let turn = 0; turn < turns; turn++) await null;
    model.close();
    outcomes.add(await outcome);
    assert.deepEqual((await other.tensor("last")).bytes, Uint8Array.of(7, 8, 9), `closed after ${turns} turns`);
  }
  assert.deepEqual(outcomes, new Set(["closed", "read"]));
  other.close();
});

test("a file of no known format has no tensors and no metadata", async () => {
  const model = await open(join(scratch, "noise.bin.zstn"));
  assert.deepEqual([model.tensors.size, model.unreadable.size, model.metadata], [0, 0, {}]);
});

test("an original that cannot be opened leaves the tensors that the packed file lists, and an error for the others", async () => {
  const path = join(scratch, "large.onnx");
  await packAll([path], join(scratch, "unprotected"), ["--no-integrity"]);
  const packed = readFileSync(join(scratch, "unprotected", "large.onnx.zstn"));
  const claim = String.raw`\"kind\":\"`;
  packed.write("gguf", packed.indexOf(`${claim}onnx`) + claim.length);
  const model = await open(packed);
  assert.deepEqual([...model.tensors.keys()].sort(), ["first", "last", "long", "middle"]);
  assert.deepEqual((await model.tensor("first", { rows: [9, 10] })).bytes, LARGE.slice(9 * ROW_BYTES, 10 * ROW_BYTES));
  const [error] = model.unreadable.values();
  assert.match(error.message, /does not list all tensors.*gguf.*zstn unpack/);
});

/** Returns a packed file with a changed byte in its first frame, which has the header of the original. */
function damaged(name) {
  const packed = new Uint8Array(readFileSync(join(scratch, name)));
  // The frames begin after the header, whose length is in the file.
  const headerBytes = Number(new DataView(packed.buffer).getBigUint64(6, true));
  packed[22 + headerBytes + 40] ^= 255;
  return packed;
}

test("damage of the bytes that opening an original reads is reported, and does not look like an original without metadata", async () => {
  for (const name of ["large.gguf.zstn", "large.onnx.zstn"]) {
    await assert.rejects(open(damaged(name), { workers: 0 }), { code: "malformed", message: /checksum/ }, name);
  }
});

test("a model that cannot be opened stops the workers that decoded a part of its original", async () => {
  const exits = [];
  const started = (worker) => exits.push(once(worker, "exit", { signal: AbortSignal.timeout(5000) }));
  process.on("worker", started);
  await assert.rejects(open(damaged("text.gguf.zstn"), { workers: 1 }), { code: "malformed" });
  process.off("worker", started);
  assert.equal(exits.length, 1);
  await Promise.all(exits);
});

test("a packed PyTorch file: a view of a storage fetches and decodes the blocks that contain it", async () => {
  const model = await open(`${server.url}views.pt.zstn`);
  assert.deepEqual([model.kind, [...model.tensors.keys()]], ["zstn", ["flat", ...PARTS.map(({ name }) => name)]]);
  const entry = model.tensors.get("flat").parts[0];
  const shares = PARTS.map(({ name }) => model.tensors.get(name).storedLength);
  assert.deepEqual(shares, PARTS.map(() => Math.ceil(entry.length / 8)));
  for (const i of [5, 2]) {
    const plan = await model.plan(`part.${i}`);
    assert.ok(!plan.whole && plan.bytes > shares[i] && plan.bytes < 3 * shares[i], JSON.stringify(plan));
    const { requests, bytesFetched } = model.stats;
    const received = [];
    const { bytes } = await model.tensor(`part.${i}`, { onProgress: ({ loadedBytes, totalBytes }) => received.push([loadedBytes, totalBytes]) });
    assert.deepEqual(bytes, viewBytes(i));
    assert.ok(model.stats.bytesFetched < bytesFetched + plan.bytes + 100_000 && model.stats.requests <= requests + 4, JSON.stringify([plan, model.stats]));
    assert.deepEqual(received.at(-1), [plan.bytes, plan.bytes]);
  }
  const { bytesFetched } = model.stats;
  const { bytes } = await model.tensor("part.6", { rows: [300, 302] });
  assert.deepEqual(bytes, viewBytes(6).slice(300 * 4096, 302 * 4096));
  assert.ok(model.stats.bytesFetched < bytesFetched + 700_000, JSON.stringify(model.stats));
  const into = new Float32Array(VIEW_BYTES / 4);
  await model.tensor("part.7", { into });
  assert.deepEqual(new Uint8Array(into.buffer), viewBytes(7));
  assert.equal(await model.planes("part.7"), undefined);
  const reading = model.tensor("part.0");
  model.close();
  await assert.rejects(reading, { code: "closed" });
});

test("a packed PyTorch file: reading all views fetches a storage about once", async () => {
  for (const read of [
    (model) => Promise.all(PARTS.map(({ name }) => model.tensor(name))),
    async (model) => {
      const tensors = [];
      for await (const tensor of model.stream(PARTS.map(({ name }) => name))) tensors.push(tensor);
      return tensors;
    },
  ]) {
    const model = await open(`${server.url}views.pt.zstn`);
    const { bytesFetched } = model.stats;
    const { length } = model.tensors.get("flat").parts[0];
    for (const [i, { bytes }] of (await read(model)).entries()) assert.deepEqual(bytes, viewBytes(i));
    assert.ok(model.stats.bytesFetched < bytesFetched + 1.5 * length, JSON.stringify([length, model.stats]));
    model.close();
  }
});

test("a packed PyTorch file: views that follow each other in a storage that is too long for the cache are read by themselves", async () => {
  const model = await open(`${server.url}long-views.pt.zstn`);
  const { bytesFetched } = model.stats;
  for (const [i, name] of ["a", "b"].entries()) assert.deepEqual((await model.tensor(name)).bytes, STORAGE.slice(i << 20, (i + 1) << 20));
  assert.ok(model.stats.bytesFetched < bytesFetched + 4_000_000, JSON.stringify(model.stats));
  model.close();
});

test("a packed PyTorch file: tensors in one short entry share its bytes and its decoding", async () => {
  const model = await open(`${server.url}small.pt.zstn`);
  await model.tensor("small.0");
  const { requests } = model.stats;
  for (const [i, { name }] of SMALL.entries()) {
    const told = [];
    assert.deepEqual((await model.tensor(name, { onProgress: ({ loadedBytes }) => told.push(loadedBytes) })).bytes, LARGE.slice(4000 * i, 4000 * (i + 1)));
    assert.deepEqual(told, []);
  }
  assert.equal(model.stats.requests, requests);
  model.close();
});

test("a packed PyTorch file: with verify: full, a view is compared with the digest of its storage", async () => {
  const model = await open(`${server.url}views.pt.zstn`, { verify: "full" });
  assert.equal((await model.plan("part.3")).whole, true);
  assert.deepEqual((await model.tensor("part.3")).bytes, viewBytes(3));
  const { requests } = model.stats;
  assert.deepEqual((await model.tensor("part.4")).bytes, viewBytes(4));
  assert.equal(model.stats.requests, requests);
  model.close();
});

test("quantised values have the length of their blocks, plain and packed", async () => {
  for (const path of [vectorPath("gguf", "legacy-blocks.gguf"), join(scratch, "gguf", "legacy-blocks.gguf.zstn")]) {
    const model = await open(path);
    const { shape, byteLength, originalLength } = model.tensors.get("w.q8_0");
    const values = shape.reduce((a, b) => a * b, 1);
    assert.deepEqual([byteLength, originalLength], [4 * values, (values / 32) * 34], path);
    model.close();
  }
});

test("an index of plain PyTorch files, by path, by address and in hand: a missing file is read in its packed file", async () => {
  const folder = join(scratch, "indexed");
  mkdirSync(folder);
  const at = (name) => join(folder, name);
  for (const [i, name] of ["one.bin", "two.bin"].entries()) writeFileSync(at(name), torchFile(LARGE.subarray(0, 240_000), SMALL.slice(i, i + 1)));
  await packAll([at("two.bin")], folder);
  unlinkSync(at("two.bin"));
  const index = "pytorch_model.bin.index.json";
  writeFileSync(at(index), JSON.stringify({ weight_map: { "small.0": "one.bin", "small.1": "two.bin" } }));
  const inHand = (name) => (existsSync(at(name)) ? new Blob([readFileSync(at(name))]) : undefined);
  const address = `${server.url}indexed/${index}`;
  for (const [input, options] of [[at(index)], [address], [inHand(index), { siblings: inHand }]]) {
    const model = await open(input, options);
    for (const [i, { name }] of SMALL.slice(0, 2).entries()) assert.deepEqual((await model.tensor(name)).bytes, LARGE.slice(4000 * i, 4000 * (i + 1)));
    model.close();
  }
  // Without either file, the error is about the one that the index names.
  unlinkSync(at("two.bin.zstn"));
  await assert.rejects(open(at(index)), { code: "read", message: /^In two\.bin: .*two\.bin: it does not exist/ });
  await assert.rejects(open(address), { code: "http", status: 404, message: /^In two\.bin: [^,]*two\.bin(?!\.zstn)/ });
  await assert.rejects(open(inHand(index), { siblings: inHand }), { code: "invalid_input", message: /^In two\.bin: .*siblings/ });
});

test("an index of Keras: the model has the tensors of all files, one of which is packed", async () => {
  const folder = join(scratch, "keras-sharded");
  mkdirSync(folder);
  const [index, plain, packed] = ["m.weights.json", "m_00000.weights.h5", "m_00001.weights.h5"];
  for (const name of [index, plain]) copyFileSync(vectorPath("keras-sharded", name), join(folder, name));
  await packAll([vectorPath("keras-sharded", packed)], folder);
  for (const place of [join(folder, index), `${server.url}keras-sharded/${index}`, vectorPath("keras-sharded", index)]) {
    const model = await open(place);
    const found = [...model.tensors].map(([name, { shape }]) => `${name} ${shape}`);
    assert.deepEqual(found, ["layers/dense/vars/0 3,4", "layers/dense/vars/1 4", "layers/dense_1/vars/0 4,2", "layers/dense_1/vars/1 2"]);
    const { bytes } = await model.tensor("layers/dense_1/vars/0");
    assert.deepEqual([...new Float32Array(bytes.slice().buffer)], [16, 17, 18, 19, 20, 21, 22, 23]);
    model.close();
  }
});

test("a model in two GGUF files, the second of which is packed", async () => {
  const [folder, names] = [join(scratch, "mixed"), ["split-00001-of-00002.gguf", "split-00002-of-00002.gguf"]];
  mkdirSync(folder);
  copyFileSync(vectorPath("gguf", names[0]), join(folder, names[0]));
  await packAll([vectorPath("gguf", names[1])], folder);
  const [model, plain] = await Promise.all([open(join(folder, names[0])), open(vectorPath("gguf", names[0]))]);
  assert.equal(model.fileCount, 2);
  await assertSame(model, plain);
  for (const each of [model, plain]) each.close();
});

/** Returns the bytes with a small change to every fiftieth of them. */
const tuned = (bytes) => Uint8Array.from(bytes, (byte, i) => (i % 50 === 0 ? byte ^ 1 : byte));

const tunedGguf = (bytes) =>
  ggufFile({ "general.name": "tuned" }, [
    { name: "large", shape: [1024, ROW_BYTES / 4], bytes },
    { name: "small", shape: [3], bytes: LARGE.subarray(0, 12) },
  ]);

for (const [kind, base, name, bytes] of [
  ["gguf", "large.gguf", "tuned.gguf", tunedGguf(tuned(LARGE))],
  ["pytorch", "small.pt", "tuned.pt", torchFile(tuned(LARGE.subarray(0, 240_000)), SMALL)],
]) {
  test(`${kind}: a delta has the tensors, values and metadata of the original, with its base as it is, packed and remote`, async () => {
    const [path, delta] = [join(scratch, name), join(scratch, `${name}.z4dm`)];
    writeFileSync(path, bytes);
    await pack(path, delta, { base: join(scratch, base) });
    const plain = await open(path);
    for (const place of [join(scratch, base), join(scratch, `${base}.zstn`), `${server.url}${base}`]) {
      for (const options of [{}, { verify: "full", workers: 0 }]) {
        const model = await open(delta, { base: place, ...options });
        assert.deepEqual([model.kind, model.fileCount, model.size], [kind, 1, statSync(delta).size]);
        await assertSame(model, plain);
        model.close();
        await assert.rejects(model.tensor([...plain.tensors.keys()][0]), { code: "closed" });
      }
      const restored = await unpack(delta, { base: place });
      assert.deepEqual([restored.name, restored.kind, restored.size], [name, kind, bytes.length]);
      assert.ok(Buffer.from(await restored.blob.arrayBuffer()).equals(Buffer.from(bytes)));
    }
    plain.close();
  });
}

test("a delta of a GGUF file whose base is such a delta, which remains open", async () => {
  const [first, second] = ["tuned.gguf", "twice.gguf"].map((name) => join(scratch, name));
  writeFileSync(second, tunedGguf(tuned(tuned(LARGE).reverse())));
  await pack(second, `${second}.z4dm`, { base: first });
  const base = await open(`${first}.z4dm`, { base: join(scratch, "large.gguf") });
  const [model, plain] = [await open(`${second}.z4dm`, { base }), await open(second)];
  await assertSame(model, plain);
  model.close();
  assert.deepEqual((await base.tensor("small")).bytes, LARGE.slice(0, 12));
  for (const each of [base, plain]) each.close();
});

test("a delta of a GGUF file against safetensors with other names, in one file or several, plain and packed", async () => {
  const [path, delta, parts] = ["tuned.gguf", "against-safetensors.z4dm", "parts"].map((name) => join(scratch, name));
  const f32 = (bytes) => ({ dtype: "F32", shape: [bytes.length / 4], bytes });
  const tensors = { "encoder.norm": f32(LARGE.subarray(0, 4000)), "encoder.0": f32(LARGE) };
  writeFileSync(join(scratch, "encoder.safetensors"), safetensors(tensors));
  mkdirSync(parts);
  const map = Object.fromEntries(Object.keys(tensors).map((name, i) => [name, `model-0000${i + 1}-of-00002.safetensors`]));
  for (const [name, file] of Object.entries(map)) writeFileSync(join(parts, file), safetensors({ [name]: tensors[name] }));
  writeFileSync(join(parts, "model.safetensors.index.json"), JSON.stringify({ weight_map: map }));
  await pack(join(scratch, "encoder.safetensors"), join(scratch, "encoder.zstn"));
  await pack(parts, join(scratch, "parts-zstn"));
  const plain = await open(path);
  for (const bases of [
    ["encoder.safetensors", "encoder.zstn"],
    ["parts/model.safetensors.index.json", "parts-zstn/model.zstn.index.json"],
  ]) {
    await pack(path, delta, { base: join(scratch, bases[0]) });
    assert.ok(statSync(delta).size < LARGE.length / 10, `${statSync(delta).size} bytes`);
    for (const base of bases.map((name) => join(scratch, name))) {
      const model = await open(delta, { base });
      await assertSame(model, plain);
      model.close();
      const { blob } = await unpack(delta, { base });
      assert.ok(Buffer.from(await blob.arrayBuffer()).equals(readFileSync(path)));
    }
  }
  plain.close();
  // Another length than that of the data of both files.
  await assert.rejects(open(delta, { base: join(scratch, "encoder.zstn") }), { code: "wrong_base", rule: "delta.reference" });
});

test("a delta of a GGUF file with another base", async () => {
  const delta = join(scratch, "tuned.gguf.z4dm");
  const base = readFileSync(join(scratch, "large.gguf"));
  await assert.rejects(open(delta), { code: "base_required" });
  await assert.rejects(open(delta, { base: Buffer.concat([base, Buffer.alloc(32)]) }), { code: "wrong_base", rule: "delta.reference" });
  await assert.rejects(open(delta, { base: vectorPath("zstn", "all_dtypes.zstn") }), { code: "wrong_base", rule: "delta.reference" });
  base[base.length - LARGE.length / 2] ^= 1;
  const read = async () => {
    const model = await open(delta, { base });
    await model.tensor("large").finally(() => model.close());
  };
  await assert.rejects(read, { code: "wrong_base", rule: "delta.reference" });
});
