/**
 * Files with extension frames in the npm package: they are read like other files, written on request, and marked by
 * their version.
 */

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { FormatError, open, pack } from "zstn";
import { bf16Tensor, safetensors, xorshift } from "../support/checkpoint.mjs";
import { pack as packNatively, serve, unpack } from "../support/cli.mjs";
import { scratchFolder } from "../support/scratch.mjs";

const ROWS = 12_288;
const COLUMNS = 256;
const ROW_BYTES = 2 * COLUMNS;
const scratch = scratchFolder();
const at = (name) => join(scratch, name);
const bytesOf = async (blob) => Buffer.from(await blob.arrayBuffer());
const matrix = (bytes) => ({ dtype: "BF16", shape: [bytes.byteLength / ROW_BYTES, COLUMNS], bytes });
let server;
let up;
let tuned;

/**
 * Returns rows of integers from -7 to 7, each multiplied by the scale of its row, like dequantised weights. The
 * products are exact.
 */
function lattice(rows, random) {
  const values = new Float32Array(rows * COLUMNS);
  const step = () => (random() % 8) - (random() % 8);
  for (let row = 0; row < rows; row++) {
    const scale = (16 + (random() % 16)) / 4096;
    for (let column = 0; column < COLUMNS; column++) values[row * COLUMNS + column] = step() * scale;
  }
  return new Uint8Array(Uint16Array.from(new Uint32Array(values.buffer), (bits) => bits >>> 16).buffer);
}

/** Returns the same weights with a small change of each. */
function tune(bytes, random) {
  const before = new Uint16Array(bytes.buffer.slice(0));
  return new Uint8Array(before.map((bits) => bits + (random() % 3)).buffer);
}

before(async () => {
  const random = xorshift(2209);
  up = lattice(ROWS, random);
  const usual = bf16Tensor(200 * COLUMNS, random);
  const small = { usual: matrix(usual), quantised: matrix(lattice(200, random)) };
  writeFileSync(at("large.safetensors"), safetensors({ usual: matrix(usual), up: matrix(up) }));
  writeFileSync(at("small.safetensors"), safetensors(small));
  writeFileSync(at("usual.safetensors"), safetensors({ usual: matrix(usual) }));
  tuned = { usual: matrix(tune(usual, random)), quantised: small.quantised };
  writeFileSync(at("tuned.safetensors"), safetensors(tuned));
  await packNatively(at("large.safetensors"), at("large.zstn"), { extended: true });
  await packNatively(at("tuned.safetensors"), at("tuned.z4dm"), { base: at("small.safetensors"), extended: true });
  server = await serve(scratch);
});
after(() => server?.stop());

/** Returns a stream that collects its chunks. */
function collector() {
  const pieces = [];
  const to = new WritableStream({ write: (piece) => void pieces.push(piece.slice()) });
  return { to, bytes: () => Buffer.concat(pieces) };
}

test("tensors and rows of a file of version 4 are those of the original", async () => {
  assert.equal(readFileSync(at("large.zstn"))[4], 4);
  const model = await open(`${server.url}large.zstn`);
  assert.ok(Buffer.from((await model.tensor("up")).bytes).equals(Buffer.from(up)));
  const { storedLength } = model.tensors.get("up");
  for (const [begin, end] of [[0, 1], [4095, 4097], [ROWS - 3, ROWS]]) {
    const plan = await model.plan("up", { rows: [begin, end] });
    assert.equal(plan.whole, false);
    assert.ok(plan.bytes < storedLength / 2, `${plan.bytes} of ${storedLength} bytes`);
    const { bytes } = await model.tensor("up", { rows: [begin, end] });
    assert.ok(Buffer.from(bytes).equals(Buffer.from(up.subarray(begin * ROW_BYTES, end * ROW_BYTES))));
  }
  const full = await open(at("large.zstn"), { verify: "full", workers: 0 });
  assert.ok(Buffer.from((await full.tensor("up")).bytes).equals(Buffer.from(up)));
  const restored = await full.asSafetensorsBlob().bytes();
  assert.ok(Buffer.from(restored).equals(readFileSync(at("large.safetensors"))));
  model.close();
  full.close();
});

test("tensors in intervals are read as a whole and by rows, from either packer", async () => {
  const random = xorshift(2210);
  const wide = bf16Tensor(2000 * COLUMNS, random);
  writeFileSync(at("wide.safetensors"), safetensors({ wide: matrix(wide) }));
  await packNatively(at("wide.safetensors"), at("wide.zstn"), { extended: true, effort: "max" });
  const { blob } = await pack(at("wide.safetensors"), { extended: true, effort: "max" });
  for (const source of [`${server.url}wide.zstn`, blob]) {
    const model = await open(source);
    assert.ok(Buffer.from((await model.tensor("wide")).bytes).equals(Buffer.from(wide)));
    for (const [begin, end] of [[0, 1], [511, 513], [1999, 2000]]) {
      const plan = await model.plan("wide", { rows: [begin, end] });
      assert.ok(plan.bytes < 0.6 * model.tensors.get("wide").storedLength, `${plan.bytes} bytes`);
      const { bytes } = await model.tensor("wide", { rows: [begin, end] });
      assert.ok(Buffer.from(bytes).equals(Buffer.from(wide.subarray(begin * ROW_BYTES, end * ROW_BYTES))));
    }
    model.close();
  }
});

test("the server offers the original, whole and in ranges", async () => {
  writeFileSync(at("alone.zstn"), readFileSync(at("large.zstn")));
  const original = readFileSync(at("large.safetensors"));
  const whole = await fetch(`${server.url}alone.safetensors`);
  assert.ok(Buffer.from(await whole.arrayBuffer()).equals(original));
  const [begin, end] = [original.length - 5000, original.length - 1000];
  const part = await fetch(`${server.url}alone.safetensors`, { headers: { Range: `bytes=${begin}-${end - 1}` } });
  assert.equal(part.status, 206);
  assert.ok(Buffer.from(await part.arrayBuffer()).equals(original.subarray(begin, end)));
});

test("a delta of version 2 is read with its base", async () => {
  assert.equal(readFileSync(at("tuned.z4dm"))[4], 2);
  const model = await open(at("tuned.z4dm"), { base: at("small.safetensors") });
  assert.equal(model.tensors.get("usual").base, "delta");
  const { bytes } = await model.tensor("usual");
  assert.ok(Buffer.from(bytes).equals(Buffer.from(tuned.usual.bytes)));
  const rows = await model.tensor("usual", { rows: [7, 9] });
  assert.ok(Buffer.from(rows.bytes).equals(Buffer.from(tuned.usual.bytes.subarray(7 * ROW_BYTES, 9 * ROW_BYTES))));
  model.close();
});

test("rows of a difference take blocks of the delta and of a base with digests", async () => {
  const random = xorshift(99);
  const old = bf16Tensor(ROWS * COLUMNS, random);
  const now = { changed: matrix(tune(old, random)), kept: matrix(old) };
  writeFileSync(at("old.safetensors"), safetensors({ changed: matrix(old), kept: matrix(old.slice()) }));
  writeFileSync(at("now.safetensors"), safetensors(now));
  await packNatively(at("old.safetensors"), at("old.zstn"));
  await packNatively(at("now.safetensors"), at("now.z4dm"), { base: at("old.safetensors"), extended: true });
  const model = await open(`${server.url}now.z4dm`, { base: `${server.url}old.zstn` });
  const plain = await open(`${server.url}now.z4dm`, { base: `${server.url}old.safetensors` });
  for (const [name, tensor] of Object.entries(now)) {
    for (const [begin, end] of [[7, 7], [0, 1], [511, 514], [ROWS - 3, ROWS]]) {
      const before = model.stats.bytesFetched + model.base.stats.bytesFetched;
      const { bytes, shape } = await model.tensor(name, { rows: [begin, end] });
      const fetched = model.stats.bytesFetched + model.base.stats.bytesFetched - before;
      const expected = Buffer.from(tensor.bytes.subarray(begin * ROW_BYTES, end * ROW_BYTES));
      assert.ok(Buffer.from(bytes).equals(expected), `${name} ${begin}`);
      assert.deepEqual(shape, [end - begin, COLUMNS]);
      assert.ok(fetched * 3 < model.tensors.get(name).storedLength + model.base.tensors.get(name).storedLength, `${name}: ${fetched} bytes`);
      assert.equal((await model.plan(name, { rows: [begin, end] })).whole, false);
      // A base without digests can only be checked by reading whole tensors. No rows need no bytes.
      assert.equal((await plain.plan(name, { rows: [begin, end] })).whole, begin < end);
      assert.ok(Buffer.from((await plain.tensor(name, { rows: [begin, end] })).bytes).equals(expected));
    }
  }
  model.close();
  plain.close();
});

/** Returns 16-bit elements that are at most `steps` above the elements of `bytes`. The bound differs between rows. */
function moved(bytes, steps, random) {
  const words = new Uint16Array(bytes.buffer);
  const bound = (element) => steps >> (Math.floor(element / COLUMNS) % 4);
  return new Uint8Array(words.map((bits, element) => bits + (random() % (bound(element) + 1))).buffer);
}

test("differences of every length come back, with few and with many raw bits", async () => {
  const random = xorshift(715);
  const evenly = (elements) => new Uint8Array(Uint16Array.from({ length: elements }, random).buffer);
  const normal = bf16Tensor(550_001, random);
  const pairs = {
    "few steps": [normal, 4],
    "steps with raw bits": [normal, 700],
    "steps with more raw bits": [evenly(70_001), 1 << 13],
    "small": [evenly(13), 1],
  };
  const [old, tuned] = [{}, {}];
  for (const [name, [bytes, steps]] of Object.entries(pairs)) {
    for (const dtype of ["BF16", "F16"]) {
      const shape = [bytes.length / 2];
      old[`${name}, ${dtype}`] = { dtype, shape, bytes };
      tuned[`${name}, ${dtype}`] = { dtype, shape, bytes: moved(bytes, steps, random) };
    }
  }
  writeFileSync(at("old.safetensors"), safetensors(old));
  writeFileSync(at("new.safetensors"), safetensors(tuned));
  await packNatively(at("new.safetensors"), at("new.z4dm"), { base: at("old.safetensors"), extended: true });
  const model = await open(at("new.z4dm"), { base: at("old.safetensors"), workers: 0 });
  for await (const { name, bytes } of model.stream()) {
    assert.equal(model.tensors.get(name).base === "delta", !name.startsWith("small"), name);
    assert.ok(Buffer.from(bytes).equals(Buffer.from(tuned[name].bytes)), name);
  }
  model.close();
});

test("`extended` packs into a Blob and a stream with the same bytes, which the command line restores", async () => {
  const plain = await pack(at("small.safetensors"));
  const { blob, size } = await pack(at("small.safetensors"), { extended: true });
  assert.equal(size, blob.size);
  assert.ok(size < plain.size, `${size} and ${plain.size} bytes`);
  const bytes = await bytesOf(blob);
  assert.equal(bytes[4], 4);
  const stream = collector();
  const report = await pack(at("small.safetensors"), { extended: true, to: stream.to });
  assert.equal(report.size, size);
  assert.ok(stream.bytes().equals(bytes));
  writeFileSync(at("packed.zstn"), bytes);
  await unpack(at("packed.zstn"), at("back.safetensors"));
  assert.ok(readFileSync(at("back.safetensors")).equals(readFileSync(at("small.safetensors"))));
});

test("against a base as well", async () => {
  const options = { base: at("small.safetensors"), extended: true };
  const { blob, size, tensors } = await pack(at("tuned.safetensors"), options);
  const bytes = await bytesOf(blob);
  assert.deepEqual([bytes[4], size], [2, bytes.byteLength]);
  assert.deepEqual(tensors.map(({ base }) => base).toSorted(), ["copy", "delta"]);
  const stream = collector();
  await pack(at("tuned.safetensors"), { ...options, to: stream.to });
  assert.ok(stream.bytes().equals(bytes));
  writeFileSync(at("packed.z4dm"), bytes);
  await unpack(at("packed.z4dm"), at("back.safetensors"), { base: at("small.safetensors") });
  assert.ok(readFileSync(at("back.safetensors")).equals(readFileSync(at("tuned.safetensors"))));
});

test("without a smaller extension frame the option changes nothing", async () => {
  const plain = await bytesOf((await pack(at("usual.safetensors"))).blob);
  const extended = await bytesOf((await pack(at("usual.safetensors"), { extended: true })).blob);
  assert.ok(plain.equals(extended));
  assert.equal(plain[4], 3);
});

test("an extension frame in version 3 is refused", async () => {
  const forged = readFileSync(at("large.zstn"));
  forged[4] = 3;
  await assert.rejects(open(forged), (error) => error instanceof FormatError && error.rule === "zstn.head_checksum");
});

test("a delta of version 3 is read and written: other names, more and fewer rows, parts of a fused tensor", async () => {
  const random = xorshift(3);
  const rows = (bytes, begin, end) => bytes.slice(begin * ROW_BYTES, end * ROW_BYTES);
  const [embedding, fused, added] = [4000, 96, 20].map((count) => bf16Tensor(count * COLUMNS, random));
  writeFileSync(at("family.safetensors"), safetensors({ "model.embed.weight": matrix(embedding), "model.0.qkv_proj.weight": matrix(fused) }));
  await packNatively(at("family.safetensors"), at("family.zstn"));
  const more = Buffer.concat([tune(embedding, random), added]);
  const parts = { q: rows(fused, 0, 64), k: tune(rows(fused, 64, 80), random), v: rows(fused, 80, 96) };
  const relatives = {
    renamed: { "lm.model.embed.weight": embedding, "lm.model.0.qkv_proj.weight": tune(fused, random) },
    more: { "model.embed.weight": more },
    fewer: { "embed.weight": rows(more, 0, 3900) },
    split: Object.fromEntries(Object.entries(parts).map(([part, bytes]) => [`model.0.${part}_proj.weight`, bytes])),
  };
  for (const [name, tensors] of Object.entries(relatives)) {
    const original = safetensors(Object.fromEntries(Object.entries(tensors).map(([name, bytes]) => [name, matrix(bytes)])));
    writeFileSync(at(`${name}.safetensors`), original);
    await packNatively(at(`${name}.safetensors`), at(`${name}.z4dm`), { base: at("family.safetensors"), extended: true });
    const native = readFileSync(at(`${name}.z4dm`));
    assert.equal(native[4], 3, name);
    const { blob } = await pack(at(`${name}.safetensors`), { base: at("family.zstn"), extended: true });
    assert.ok((await bytesOf(blob)).equals(native), name);
    for (const workers of [0, 1]) {
      const model = await open(at(`${name}.z4dm`), { base: at("family.zstn"), workers });
      for (const [tensor, bytes] of Object.entries(tensors)) {
        assert.ok(Buffer.from((await model.tensor(tensor)).bytes).equals(Buffer.from(bytes)), `${name}: ${tensor}`);
        const count = bytes.byteLength / ROW_BYTES;
        for (const [begin, end] of [[1, 3], [count - 2, count]]) {
          const read = await model.tensor(tensor, { rows: [begin, end] });
          assert.ok(Buffer.from(read.bytes).equals(Buffer.from(rows(bytes, begin, end))), `${name}: ${tensor}`);
        }
      }
      assert.ok(Buffer.from(await model.asSafetensorsBlob().bytes()).equals(Buffer.from(original)), name);
      model.close();
    }
  }
});

test("a selection that includes new rows, which need the whole tensor, reads it once", async () => {
  const random = xorshift(17);
  // The first rows of two layers are more than a band apart, so each of them is read by itself.
  const [height, before, after] = [2400, 4, 7];
  const layerBytes = height * ROW_BYTES;
  const layers = (bytes) => ({ dtype: "BF16", shape: [bytes.byteLength / layerBytes, height, COLUMNS], bytes });
  const front = bf16Tensor(before * height * COLUMNS, random);
  const grown = new Uint8Array(Buffer.concat([tune(front, random), bf16Tensor((after - before) * height * COLUMNS, random)]));
  const firstRows = (count) => Buffer.concat(Array.from({ length: count }, (_, layer) => grown.subarray(layer * layerBytes, layer * layerBytes + ROW_BYTES)));
  writeFileSync(at("short.safetensors"), safetensors({ experts: layers(front) }));
  writeFileSync(at("long.safetensors"), safetensors({ experts: layers(grown) }));
  await packNatively(at("short.safetensors"), at("short.zstn"));
  await packNatively(at("long.safetensors"), at("long.z4dm"), { base: at("short.zstn"), extended: true });
  const model = await open(at("long.z4dm"), { base: at("short.zstn") });
  const read = async (options) => {
    let loadedBytes = 0;
    const { bytes } = await model.tensor("experts", { ...options, onProgress: (progress) => ({ loadedBytes } = progress) });
    return { bytes: Buffer.from(bytes), loadedBytes, isWhole: (await model.plan("experts", options)).whole };
  };
  const old = await read({ select: [[0, before], 0] });
  const all = await read({ select: [null, 0] });
  const whole = await read({});
  assert.ok(old.bytes.equals(firstRows(before)));
  assert.ok(all.bytes.equals(firstRows(after)));
  assert.ok(whole.bytes.equals(Buffer.from(grown)));
  assert.deepEqual([old, all, whole].map(({ isWhole }) => isWhole), [false, true, true]);
  assert.equal(all.loadedBytes, whole.loadedBytes);
  model.close();
});
