/**
 * Runs the code of docs/npm/hand-off.md and docs/npm/hub.md with the real libraries. The only replacement is the
 * address, which becomes the address of a local hub.
 */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { safetensors } from "../support/checkpoint.mjs";
import { linkModules, withoutConsumers } from "../support/consumers.mjs";
import { ELEMENT_TYPES, identity, lookup } from "../support/onnx.mjs";
import { WEIGHTS, block, blocks, writeModels } from "../support/readme.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { stubHub } from "../support/stub-hub.mjs";

const run = promisify(execFile);
const project = join(scratchFolder(), "project");
const PAGE = "docs/npm/hand-off.md";
let hub;

/** Rows 3 and 5 of `wte.weight`, which has four columns. */
const ROWS = [12, 13, 14, 15, 20, 21, 22, 23].map((i) => new Float32Array(Uint32Array.of(WEIGHTS[i] << 16).buffer)[0]);

/** A tensor of every dtype that ONNX Runtime or TensorFlow.js supports, or that has to be converted for them. */
const VALUES = {
  F64: Float64Array.of(0.1, -2), F32: Float32Array.of(0.5, -2), F16: Uint16Array.of(0x3800, 0xc000), BF16: Uint16Array.of(0x3f00, 0xc000), F8_E4M3: Uint8Array.of(0x30, 0xc0),
  I64: BigInt64Array.of(-7n, 9n), I32: Int32Array.of(-7, 9), I16: Int16Array.of(-7, 9), I8: Int8Array.of(-7, 9),
  U64: BigUint64Array.of(7n, 2n ** 63n), U32: Uint32Array.of(7, 2 ** 31), U16: Uint16Array.of(7, 60_000), U8: Uint8Array.of(7, 255), BOOL: Uint8Array.of(0, 1),
};

before(async () => {
  mkdirSync(project, { recursive: true });
  writeFileSync(join(project, "package.json"), '{ "type": "module" }');
  linkModules(project);
  await writeModels(project);
  writeFileSync(join(project, "lookup.onnx"), lookup());
  for (const type of Object.keys(ELEMENT_TYPES)) writeFileSync(join(project, `${type}.onnx`), identity(type));
  const tensors = Object.entries(VALUES).map(([dtype, data]) => [dtype, { dtype, shape: [data.length], bytes: new Uint8Array(data.buffer) }]);
  writeFileSync(join(project, "all.safetensors"), safetensors(Object.fromEntries(tensors)));
  hub = await stubHub();
  const model = readFileSync(join(project, "model.safetensors"));
  await hub.add("owner/name", { "model.safetensors": model, "model.zstn": readFileSync(join(project, "model.zstn")), "unet/model.safetensors": model });
});
after(() => hub?.stop());

/** Runs a block, followed by `more`, which prints one line of JSON. */
async function module(name, code, more) {
  writeFileSync(join(project, name), `${code.replaceAll("https://huggingface.co", hub.endpoint)}\n${more}\nprocess.exit();\n`);
  const { stdout } = await run(process.execPath, [name], { cwd: project, env: { ...process.env, HF_ENDPOINT: hub.endpoint, HF_HOME: project, HF_TOKEN: "" } });
  return JSON.parse(stdout.trimEnd().split("\n").at(-1));
}

test("the blocks for Node are those that are run here", () => {
  assert.equal(blocks(PAGE, "js").length, 4);
});

test("onnxruntime-node", { skip: withoutConsumers }, async () => {
  const found = await module("ort.mjs", block(PAGE, "js", 'from "onnxruntime-node"'), "console.log(JSON.stringify([[...rows.data], rows.dims, table.data.length]));");
  assert.deepEqual(found, [ROWS, [2, 4], WEIGHTS.length]);
});

test("onnxruntime-node gives back tensors of every dtype, under the name of the table", { skip: withoutConsumers }, async () => {
  const more = `
    const all = await open("all.safetensors");
    const results = {};
    for (const t of await Promise.all([...all.tensors.keys()].map((name) => all.tensor(name)))) {
      const value = toOrt(t);
      const { out } = await (await ort.InferenceSession.create(value.type + ".onnx")).run({ value });
      const bytesOf = (array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength).toString("hex");
      results[t.dtype] = [out.type, bytesOf(out.data) === bytesOf(TYPES[t.dtype] ? t.data : t.toFloat32())];
    }
    console.log(JSON.stringify(results));`;
  const found = await module("ort-all.mjs", block(PAGE, "js", 'from "onnxruntime-node"'), more);
  const expected = { F64: "float64", F32: "float32", F16: "float16", BF16: "float32", F8_E4M3: "float32", I64: "int64", I32: "int32", I16: "int16", I8: "int8", U64: "uint64", U32: "uint32", U16: "uint16", U8: "uint8", BOOL: "bool" };
  assert.deepEqual(found, Object.fromEntries(Object.entries(expected).map(([dtype, type]) => [dtype, [type, true]])));
  // The table in the document must contain the same types.
  const rows = readFileSync(new URL(`../../../${PAGE}`, import.meta.url), "utf8").split("\n").filter((line) => line.startsWith("| "));
  const column = rows[0].split("|").indexOf(" ONNX Runtime ");
  assert.ok(column > 0, rows[0]);
  for (const [dtype, type] of Object.entries(expected)) {
    const row = rows.find((line) => line.split("|")[1].includes(dtype.replace(/^F8_.*/, "F8 types")));
    assert.ok(row?.split("|")[column].includes(`\`${type}\``), `${dtype}: ${row}`);
  }
});

test("half the memory for BF16, as float16", { skip: withoutConsumers }, async () => {
  const more = `
    const bf16 = await (await open("all.safetensors")).tensor("BF16");
    const value = new ort.Tensor("float16", bf16.toFloat16(), bf16.shape);
    const { out } = await (await ort.InferenceSession.create("float16.onnx")).run({ value });
    console.log(JSON.stringify([out.type, Buffer.from(out.data.buffer, out.data.byteOffset, out.data.byteLength).toString("hex")]));`;
  assert.deepEqual(await module("ort-half.mjs", block(PAGE, "js", 'from "onnxruntime-node"'), more), ["float16", Buffer.from(VALUES.F16.buffer).toString("hex")]);
});

test("TensorFlow.js", { skip: withoutConsumers }, async () => {
  const more = `
    const all = await open("all.safetensors");
    const results = {};
    for (const name of ["F32", "BF16", "F16", "F8_E4M3", "I32", "BOOL", "U8", "F64"]) {
      const tensor = toTf(await all.tensor(name));
      results[name] = [tensor.dtype, ...tensor.dataSync()];
    }
    console.log(JSON.stringify([[...rows.dataSync()], rows.shape, results]));`;
  const found = await module("tf.mjs", block(PAGE, "js", 'from "@tensorflow/tfjs"'), more);
  const half = ["float32", 0.5, -2];
  assert.deepEqual(found, [ROWS, [2, 4], { F32: half, BF16: half, F16: half, F8_E4M3: half, I32: ["int32", -7, 9], BOOL: ["bool", 0, 1], U8: ["float32", 7, 255], F64: ["float32", Math.fround(0.1), -2] }]);
});

test("the Blob of @huggingface/hub", async () => {
  const found = await module("blob.mjs", block(PAGE, "js", "await downloadFile({"), "console.log(JSON.stringify([...t.data]));");
  assert.deepEqual(found, [...WEIGHTS]);
});

test("parseSafetensorsMetadata of @huggingface/hub", async () => {
  const found = await module("metadata.mjs", block(PAGE, "js", "await parseSafetensorsMetadata({"), "console.log(JSON.stringify(header));");
  assert.deepEqual(found["wte.weight"].shape, [1500, 4]);
  assert.deepEqual(Object.keys(found).filter((name) => name !== "__metadata__").sort(), ["transformer.wte.weight", "wte.weight"]);
});

test("docs/npm/hub.md", async () => {
  const more = "console.log(JSON.stringify([model.kind, files.map(({ path }) => path), part.kind, [...(await same.tensor('wte.weight')).data]]));";
  const code = block("docs/npm/hub.md", "js", 'from "zstn/hub"');
  assert.deepEqual(await module("hub.mjs", code, more), ["zstn", ["model.safetensors", "model.zstn", "unet/model.safetensors"], "safetensors", [...WEIGHTS]]);
});
