/** Weights in MX formats and NVFP4: their values are those of the specification, and of the package that wrote them. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { blockScaled, open, readBlockScaled } from "zstn";
import { safetensors } from "../support/checkpoint.mjs";
import { vectorPath } from "../support/vectors.mjs";

/** Rounds a 32-bit float to the bits of a bfloat16, ties to even. */
function bf16Bits(value) {
  const [bits] = new Uint32Array(Float32Array.of(value).buffer);
  return Number.isNaN(value) ? 0x7fc0 : (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}

for (const [vector, format, elementType] of [["mxfp4_g32", "MXFP4", "F4"], ["mxfp6_g32", "MXFP6", "F6_E2M3"], ["mxfp8_g32", "MXFP8", "F8_E4M3"], ["nvfp4_g16", "NVFP4", "F4"]]) {
  test(`${format}: the values that compressed-tensors restores`, async () => {
    const model = await open(vectorPath("compressed-tensors", `${vector}.safetensors`), { config: false });
    const dense = await open(vectorPath("compressed-tensors", `${vector}.dense.safetensors`));
    const found = [...model.tensors.keys()].map((name) => blockScaled(model.tensors, name)).filter(Boolean);
    assert.ok(found.length > 0);
    for (const weight of found) {
      const name = weight.elements.replace(/_packed$/, "");
      const expected = await dense.tensor(name);
      assert.deepEqual([weight.format, weight.elementType, [...weight.shape], expected.dtype], [format, elementType, [...expected.shape], "BF16"]);
      const values = await readBlockScaled(model, weight);
      assert.deepEqual(Array.from(values, bf16Bits), [...expected.data], name);
      const [rows] = weight.shape;
      const some = await readBlockScaled(model, weight, { rows: [1, rows - 1] });
      assert.deepEqual([...some], [...values.subarray(weight.shape[1], (rows - 1) * weight.shape[1])]);
    }
  });
}

/** The magnitudes of a 4-bit float (OCP microscaling formats, 5.3.3), by the lower three bits of its code. */
const MAGNITUDES = [0, 0.5, 1, 1.5, 2, 3, 4, 6];
const fp4 = (code) => (code >= 8 ? -1 : 1) * MAGNITUDES[code % 8];
/** The value of an E4M3 code that is a number. */
const e4m3 = (code) => (code >= 128 ? -1 : 1) * ((code >> 3) % 16 === 0 ? (code % 8) * 2 ** -9 : (1 + (code % 8) / 8) * 2 ** (((code >> 3) % 16) - 7));

const u8 = (shape, bytes) => ({ dtype: "U8", shape, bytes: Uint8Array.from(bytes) });
const bytesOf = (length, factor = 37) => Array.from({ length }, (_, i) => (i * factor + (i >> 4) * 11) % 256);

test("GPT-OSS: blocks and scales of a stack of experts, with every scale", async () => {
  const [experts, rows, blocks] = [2, 64, 2];
  const codes = bytesOf(experts * rows * blocks * 16);
  const scales = Array.from({ length: experts * rows * blocks }, (_, i) => i % 256);
  for (const [elements, factors] of [["mlp.experts.down_proj_blocks", "mlp.experts.down_proj_scales"], ["block.0.mlp.mlp1_weight.blocks", "block.0.mlp.mlp1_weight.scales"]]) {
    const model = await open(safetensors({ [elements]: u8([experts, rows, blocks, 16], codes), [factors]: u8([experts, rows, blocks], scales) }));
    const weight = blockScaled(model.tensors, elements);
    assert.deepEqual(weight, { format: "MXFP4", shape: [experts, rows, blocks * 32], blockLength: 32, elements, elementType: "F4", scales: factors, scaleType: "F8_E8M0" });
    assert.equal(blockScaled(model.tensors, factors), undefined);
    assert.equal(blockScaled(model.tensors, "nothing"), undefined);
    const values = await readBlockScaled(model, weight);
    const expected = codes.flatMap((byte) => [byte % 16, byte >> 4]).map((code, i) => {
      const scale = scales[Math.floor(i / 32)];
      return scale === 255 ? Number.NaN : Math.fround(fp4(code) * 2 ** (scale - 127));
    });
    assert.ok(values.every((value, i) => Object.is(value, expected[i])));
    assert.deepEqual([...(await readBlockScaled(model, weight, { rows: [1, 2] }))], expected.slice(expected.length / 2));
    await assert.rejects(readBlockScaled(model, weight, { rows: [1, 3] }), { code: "invalid_input" });
    await assert.rejects(readBlockScaled(model, weight, { row: 1 }), { code: "invalid_input" });
  }
});

test("ModelOpt: scales times the second scale; one for each matrix of a stack, or one for all", async () => {
  const codes = bytesOf(3 * 4 * 16, 91);
  const scales = Array.from({ length: 3 * 4 * 2 }, (_, i) => (i * 29) % 127);
  for (const seconds of [[0.37], [0.37, 1.3e-3, 2]]) {
    const tensors = {
      "p.weight": u8([3, 4, 16], codes),
      "p.weight_scale": { ...u8([3, 4, 2], scales), dtype: "F8_E4M3" },
      "p.weight_scale_2": { dtype: "F32", shape: seconds.length === 1 ? [] : [3], bytes: new Uint8Array(Float32Array.from(seconds).buffer) },
    };
    const model = await open(safetensors(tensors));
    const weight = blockScaled(model.tensors, "p.weight");
    assert.deepEqual([weight.format, weight.shape, weight.blockLength, weight.global], ["NVFP4", [3, 4, 32], 16, { name: "p.weight_scale_2", divides: false }]);
    const second = (row) => Math.fround(seconds[seconds.length === 1 ? 0 : row]);
    const expected = codes.flatMap((byte) => [byte % 16, byte >> 4]).map((code, i) => Math.fround(fp4(code) * Math.fround(e4m3(scales[Math.floor(i / 16)]) * second(Math.floor(i / 128)))));
    assert.deepEqual([...(await readBlockScaled(model, weight))], expected);
    assert.deepEqual([...(await readBlockScaled(model, weight, { rows: [2, 3] }))], expected.slice(256));
  }
});

test("elements of their own dtypes, and tensors that do not belong together", async () => {
  const element = (dtype, bits) => ({ dtype, shape: [2, 32], bytes: Uint8Array.from(bytesOf(8 * bits)) });
  const scale = (dtype) => ({ dtype, shape: [2, 1], bytes: Uint8Array.of(126, 128) });
  for (const [dtype, bits] of [["F4", 4], ["F6_E2M3", 6], ["F6_E3M2", 6], ["F8_E4M3", 8], ["F8_E5M2", 8]]) {
    const model = await open(safetensors({ w: element(dtype, bits), w_scale: scale("F8_E8M0") }));
    const weight = blockScaled(model.tensors, "w");
    assert.deepEqual([weight.format, weight.elementType], [`MXFP${bits}`, dtype]);
    const plain = (await model.tensor("w")).toFloat32();
    assert.deepEqual([...(await readBlockScaled(model, weight))], Array.from(plain, (value, i) => value * (i < 32 ? 0.5 : 2)));
  }
  const unfit = {
    "scales of another shape": { w: element("F4", 4), w_scale: { dtype: "U8", shape: [1, 2], bytes: Uint8Array.of(1, 2) } },
    "scales of another dtype": { w: element("F4", 4), w_scale: { dtype: "F16", shape: [2, 1], bytes: new Uint8Array(4) } },
    "8-bit scales without a second one": { w: u8([2, 8], bytesOf(16)), w_scale: scale("F8_E4M3") },
    "no scales": { w: element("F4", 4) },
    "elements that are not of 4, 6 or 8 bits": { w: u8([2, 20], bytesOf(40)), w_scale: scale("U8") },
    "one dimension": { w: u8([16], bytesOf(16)), w_scale: u8([1], [127]) },
  };
  for (const [why, tensors] of Object.entries(unfit)) assert.equal(blockScaled((await open(safetensors(tensors))).tensors, "w"), undefined, why);
  const [one, other] = [await open(safetensors({ w: element("F4", 4), w_scale: scale("U8") })), await open(safetensors({ w: u8([3], [1, 2, 3]), w_scale: scale("U8") }))];
  await assert.rejects(readBlockScaled(other, blockScaled(one.tensors, "w")), { code: "invalid_input", message: /w has 3 bytes/ });
});
