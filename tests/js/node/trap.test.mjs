/**
 * After a trap the instance is dropped: the next call creates another one, and models of the old one report that they
 * are lost.
 */

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { before, test } from "node:test";
import { compress, configure, decompress, open, pack, workerPool } from "zstn";
import { FileServer } from "../../../wasm/dist/safetensors-view/file-server.js";
import { bf16Tensor, safetensors, xorshift } from "../support/checkpoint.mjs";
import { pack as packNatively } from "../support/cli.mjs";
import { withLittleMemory } from "../support/little-memory.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { goodDeltas, vectorPath } from "../support/vectors.mjs";

/**
 * The memory that both modules may add to their initial memory, in bytes. It is shorter than the stored bytes of the
 * large tensor.
 */
const MORE_BYTES = 4 << 20;
const LARGE_BYTES = 16 << 20;

const random = xorshift(7);
const tensors = {
  large: { dtype: "BF16", shape: [LARGE_BYTES / 2], bytes: bf16Tensor(LARGE_BYTES / 2, random) },
  small: { dtype: "BF16", shape: [64, 64], bytes: bf16Tensor(4096, random) },
};
const original = safetensors(tensors);
const alone = { workers: 0 };
const folder = scratchFolder();
let packed;

before(async () => {
  packed = join(folder, "model.zstn");
  writeFileSync(join(folder, "model.safetensors"), original);
  await packNatively(join(folder, "model.safetensors"), packed);
  for (const [name, file] of [["reader", "zstn_wasm_bg.wasm"], ["formats", "zstn_formats_bg.wasm"], ["coder", "zstn_coder_bg.wasm"]]) {
    configure({ wasm: { [name]: withLittleMemory(await readFile(new URL(import.meta.resolve(`zstn/${file}`))), MORE_BYTES) } });
  }
});

// Modules with debug assertions report memory that they do not get; published ones stop.
const isTrap = { name: "InternalError", code: "internal", message: /stopped unexpectedly \((unreachable|invalid malloc request)\)/ };
const isLost = { name: "ModelClosedError", code: "closed", message: /Open the model again/ };

async function checkSmall(model) {
  assert.deepEqual((await model.tensor("small")).bytes, tensors.small.bytes);
}

test("a trap is an error of its call; the models of that instance are closed, and can be opened again", async () => {
  const [model, other] = [await open(packed, alone), await open(packed, alone)];
  await checkSmall(other);
  const rows = await other.plan("small", { rows: [0, 1] });
  const view = other.asSafetensorsBlob();
  await assert.rejects(model.tensor("large"), isTrap);
  for (const lost of [model, other]) {
    await assert.rejects(lost.tensor("small"), isLost);
    await assert.rejects(lost.tensor("small", { rows: [0, 1] }), isLost);
    await assert.rejects(lost.plan("small", { rows: [0, 1] }), isLost);
    await assert.rejects(lost.planes("small"), isLost);
    await assert.rejects(lost.stream().next(), isLost);
    assert.throws(() => lost.asSafetensorsBlob(), isLost);
    assert.equal(lost.tensors.get("small").byteLength, 8192, "what is known of the tensors stays");
  }
  await assert.rejects(view.slice(-100).arrayBuffer(), isLost);
  assert.equal(rows.bytes, (await (await open(packed, alone)).plan("small", { rows: [0, 1] })).bytes);

  const again = await open(packed, alone);
  await checkSmall(again);
  for (const lost of [model, other]) {
    lost.close();
    lost.close();
    await assert.rejects(lost.tensor("small"), { code: "closed" });
  }
  await checkSmall(again);
  again.close();
});

test("objects of a lost instance that are collected as garbage leave the next one alone", async () => {
  for (let round = 0; round < 5; round++) {
    await assert.rejects((await open(packed, alone)).tensor("large"), isTrap);
    const models = await Promise.all(Array.from({ length: 20 }, () => open(packed, alone)));
    globalThis.gc?.();
    await new Promise((resolve) => setTimeout(resolve));
    for (const model of models) await checkSmall(model);
  }
});

test("instances are lost one by one: a trap where one packs leaves models alone", async () => {
  const model = await open(packed, alone);
  await checkSmall(model);
  const formats = await open(vectorPath("ztensor", "v01_py011_basic.zt"), alone);
  const [name] = formats.tensors.keys();
  await assert.rejects(compress(tensors.large.bytes.subarray(0, 1 << 20), { dtype: "BF16", effort: "max" }), isTrap);
  assert.deepEqual(await decompress(await compress(tensors.small.bytes, { dtype: "BF16" })), tensors.small.bytes);
  await assert.rejects((await open(packed, alone)).tensor("large"), isTrap);
  await assert.rejects(model.tensor("small"), isLost);
  assert.ok((await formats.tensor(name)).bytes.length > 0);
});

test("a worker that traps is replaced, and the model is still open", async () => {
  const pool = workerPool({ size: 1, minBytes: 0 });
  const model = await open(packed, { workers: pool });
  await assert.rejects(model.tensor("large"), isTrap);
  await checkSmall(model);
  assert.equal(pool.decoded, 1);
  pool.close();
});

test("a delta whose base was lost is not opened with it, and not read", async () => {
  const [{ container, base: itsBase }] = goodDeltas.filter(({ official_base, official_target }) => official_base.valid && official_target.valid);
  // The base is packed, since a plain base needs no decoder. A delta is in another instance than its base.
  const base = await open((await pack(new Blob([readFileSync(vectorPath("zstn", itsBase.file))]))).blob, alone);
  const delta = await open(vectorPath("zstn", container.file), { base, ...alone });
  // A model is in an instance from its first read on.
  await base.tensor([...base.tensors.keys()][0]);
  await assert.rejects((await open(packed, alone)).tensor("large"), isTrap);
  await assert.rejects(open(vectorPath("zstn", container.file), { base, ...alone }), isLost);
  const fromBase = [...delta.tensors.values()].find((info) => info.base);
  await assert.rejects(delta.tensor(fromBase.name), isLost);
});

test("a file server opens the model again", async () => {
  let opened = 0;
  const server = new FileServer("x", () => ((opened += 1), open(packed, alone)), {});
  const ask = (range) => server.answer(new Request("https://host.test/x", { headers: { range } }));
  const headerBytes = Number(original.readBigUInt64LE());
  const from = 8 + headerBytes + LARGE_BYTES;
  assert.equal((await ask(`bytes=${from}-${from + 99}`)).status, 206);
  assert.equal((await ask(`bytes=${8 + headerBytes}-${8 + headerBytes + 9}`)).status, 502);
  const answer = await ask(`bytes=${from}-${from + 99}`);
  assert.deepEqual([answer.status, opened], [206, 2]);
  assert.deepEqual(Buffer.from(await answer.arrayBuffer()), original.subarray(from, from + 100));
});
