/** The viewer's search for grids: planted quantisation is found with its group size, and near misses are not. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { open } from "zstn";
import { vectorPath } from "../support/vectors.mjs";

async function load(path) {
  const { outputFiles } = await build({ entryPoints: [fileURLToPath(new URL(`../../../web-demo/src/${path}`, import.meta.url))], bundle: true, format: "esm", write: false });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
}

const { levelsOf } = await load("engine/levels/levels.ts");
const { verdictOf } = await load("tensor/levels-verdict.ts");

const [ROWS, COLUMNS] = [12, 1024];

/** Returns a generator of numbers from 0 to 1, the same in each run. */
function uniform(seed) {
  let state = seed * 2654435761 + 12345;
  return () => {
    state = (Math.imul(state ^ (state >>> 15), 2246822519) + 0x9e3779b9) | 0;
    return ((state ^ (state >>> 13)) >>> 0) / 2 ** 32;
  };
}

/** Returns normally distributed values. */
function normal(seed, deviation = 0.02) {
  const next = uniform(seed);
  return Float64Array.from({ length: ROWS * COLUMNS }, () => deviation * Math.sqrt(-2 * Math.log(next() + 1e-12)) * Math.cos(2 * Math.PI * next()));
}

const bits = new Uint32Array(1);
const float = new Float32Array(bits.buffer);

/** Rounds to bfloat16, ties to even. */
function toBf16(value) {
  float[0] = value;
  bits[0] = (bits[0] + 0x7fff + ((bits[0] >>> 16) & 1)) & 0xffff0000;
  return float[0];
}

/** Rounds to 11 significant bits, and below 2^-14 to multiples of 2^-24, as float16 does. Ties are rounded to even. */
function toF16(value) {
  const step = 2 ** (Math.max(Math.floor(Math.log2(Math.abs(value))), -14) - 10);
  const steps = value / step;
  const [low, rest] = [Math.floor(steps), steps - Math.floor(steps)];
  return value === 0 ? 0 : step * (rest > 0.5 || (rest === 0.5 && low % 2 !== 0) ? low + 1 : low);
}

const ROUND = { BF16: toBf16, F16: toF16, F32: Math.fround, F64: (value) => value };

/**
 * Quantises values in groups: `code(values)` returns the value of each code and the scale of one group. Scales are
 * rounded to the dtype, and products once more.
 */
function quantised(dtype, group, code, seed = 1) {
  const values = normal(seed);
  const round = ROUND[dtype];
  for (let at = 0; at < values.length; at += group) {
    const { scale, levels, offset = 0 } = code(values.subarray(at, at + group), round);
    for (const [i, level] of levels.entries()) values[at + i] = round(Math.fround(Math.fround(scale * level) + offset));
  }
  return values;
}

const largest = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);

/** Symmetric integers from -2^(bits-1) to 2^(bits-1) - 1. */
const symmetric = (bits) => (values, round) => {
  const scale = round(largest(values) / (2 ** (bits - 1) - 0.5));
  return { scale, levels: Array.from(values, (value) => Math.max(-(2 ** (bits - 1)), Math.min(2 ** (bits - 1) - 1, Math.round(value / scale)))) };
};

/** Integers from 0 to 2^bits - 1 minus an integer zero point. */
const withZeroPoint = (bits) => (values, round) => {
  const [low, high] = [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
  const scale = round((high - low) / (2 ** bits - 1));
  const zero = Math.round(-low / scale);
  return { scale, levels: Array.from(values, (value) => Math.max(0, Math.min(2 ** bits - 1, Math.round(value / scale) + zero)) - zero) };
};

/** Integers from 0 to 2^bits - 1 times a step, plus a minimum, as in Q4_1 and Q4_K. */
const withMinimum = (bits) => (values) => {
  const [low, high] = [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
  const [scale, offset] = [Math.fround((high - low) / (2 ** bits - 1)), Math.fround(low)];
  return { scale, offset, levels: Array.from(values, (value) => Math.round((value - offset) / scale)) };
};

const nearest = (table, value) => table.reduce((best, level) => (Math.abs(level - value) < Math.abs(best - value) ? level : best));
const E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6].flatMap((level) => [level, -level]);
const FP4 = [0, 0.0625, 2, 3, 4, 6, 8, 12].flatMap((level) => [level / 12, -level / 12]);
const NF4 = [-1, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.09105004, 0, 0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1];

const coded = (table, most, toScale = (scale) => scale) => (values, round) => {
  const scale = toScale(Math.fround(largest(values) / most), round);
  return { scale, levels: Array.from(values, (value) => nearest(table, value / scale)) };
};
const powerOfTwo = (scale) => 2 ** Math.ceil(Math.log2(scale));

function levels(values, dtype, { columns = COLUMNS, total = values.length } = {}) {
  const numbers = dtype === "F64" ? values : Float32Array.from(values);
  return levelsOf({ blocks: [{ rowBegin: 0, rowEnd: values.length / columns, numbers }], columns, total, dtype });
}

const found = (values, dtype, options) => {
  const { grid } = levels(values, dtype, options);
  return grid && [grid.kind, grid.unit, grid.bits];
};
const verdict = (values, dtype, options) => verdictOf(levels(values, dtype, options), { dtype, shape: [ROWS, COLUMNS] });

for (const dtype of ["BF16", "F16", "F32"]) {
  test(`4-bit integers in ${dtype} are found with their group size`, () => {
    for (const group of [16, 32, 64, 128, 256]) {
      assert.deepEqual(found(quantised(dtype, group, symmetric(4)), dtype), ["uniform", group, 4], `symmetric, ${group}`);
      assert.deepEqual(found(quantised(dtype, group, withZeroPoint(4)), dtype), ["uniform", group, 4], `with zero points, ${group}`);
    }
    assert.deepEqual(found(quantised(dtype, COLUMNS, symmetric(4)), dtype), ["uniform", "row", 4]);
    assert.deepEqual(found(quantised(dtype, ROWS * COLUMNS, symmetric(4)), dtype), ["uniform", "tensor", 4]);
    assert.deepEqual(found(quantised(dtype, 32, withMinimum(4)), dtype), ["offset", 32, 4]);
  });

  test(`other widths in ${dtype} are not taken for 4 bits`, () => {
    for (const bits of [2, 3, 5, 6, 8]) {
      assert.deepEqual(found(quantised(dtype, COLUMNS, symmetric(bits)), dtype), ["uniform", "row", bits], `${bits} bits per row`);
    }
    assert.deepEqual(found(quantised(dtype, 32, symmetric(8)), dtype), ["uniform", 32, 8]);
    assert.deepEqual(found(quantised(dtype, 128, symmetric(6)), dtype), ["uniform", 128, 6]);
    const { title, evidence } = verdict(quantised(dtype, COLUMNS, symmetric(8)), dtype);
    assert.equal(title, "Consistent with 8-bit quantisation, one scale per row: not 4-bit");
    assert.match(evidence, /Up to \d\d distinct values in 32 neighbours, and a 4-bit code has 16 values\./);
  });

  test(`4-bit floats, NF4, palettes and three levels in ${dtype}`, () => {
    assert.deepEqual(found(quantised(dtype, 32, coded(E2M1, 6, powerOfTwo)), dtype), ["E2M1", 32, 4], "MXFP4");
    assert.deepEqual(found(quantised(dtype, 16, coded(E2M1, 6, (scale, round) => round(scale))), dtype), ["E2M1", 16, 4], "NVFP4");
    assert.deepEqual(found(quantised(dtype, 64, coded(NF4, 1)), dtype), ["NF4", 64, 4]);
    assert.deepEqual(found(quantised(dtype, 64, coded(FP4, 1)), dtype), ["FP4", 64, 4]);
    const random = uniform(5);
    const palette = Array.from({ length: 16 }, () => ROUND[dtype]((random() - 0.5) / 7));
    assert.deepEqual(found(normal(3, 0.03).map((value) => nearest(palette, value)), dtype), ["palette", "tensor", 4]);
    const three = normal(4).map((value) => ROUND[dtype](0.0123) * Math.sign(Math.round(value * 40)));
    assert.deepEqual(found(three, dtype), ["uniform", "tensor", 2]);
  });

  test(`values without a grid in ${dtype}, and near misses`, () => {
    const round = ROUND[dtype];
    const four = quantised(dtype, 32, symmetric(4));
    const noise = normal(9, 0.0004);
    const random = uniform(8);
    const cases = {
      "normal values": normal(2).map(round),
      "values around one": normal(2, 0.05).map((value) => round(1 + value)),
      "values close to one": normal(2, 0.004).map((value) => round(1 + value)),
      "few values other than zero": normal(2).map((value) => (random() < 0.97 ? 0 : round(value))),
      "a grid with noise": four.map((value, i) => round(value + noise[i])),
      "columns with scales of their own": four.map((value, i) => round(value * (1 + (i % COLUMNS) / 701))),
    };
    for (const [name, values] of Object.entries(cases)) {
      assert.equal(found(values, dtype), undefined, name);
      assert.match(verdict(values, dtype).title, /^No grid found: /, name);
    }
    // A foreign value in each row leaves few values in each group, but no grid.
    const foreign = four.map((value, i) => (i % COLUMNS === 77 ? round(0.0123457 * (1 + random())) : value));
    assert.deepEqual(found(foreign, dtype), ["palette", 32, 4]);
    assert.match(verdict(foreign, dtype).title, /^At most 1\d distinct values in each group of 32: 4 bits would do$/);
    assert.match(verdict(cases["normal values"], dtype).evidence, /Up to 3\d distinct values in 32 neighbours, and a 4-bit code has 16/);
  });
}

test("a short tensor does not have enough evidence, and a vector is one row", () => {
  assert.equal(found(Float64Array.of(1, 2, 3, 4), "F32", { columns: 1 }), undefined);
  assert.equal(found(normal(1).subarray(0, 20).map(toBf16), "BF16", { columns: 1 }), undefined);
  assert.deepEqual(found(quantised("BF16", 64, symmetric(4)).subarray(0, 4096), "BF16", { columns: 1 }), ["uniform", 64, 4]);
});

test("shorter floats in longer ones: their precision is stated, and does not count as a grid", () => {
  const bf16 = verdict(normal(6).map(toBf16), "F32");
  assert.match(bf16.evidence, /precision is that of bfloat16/);
  assert.match(verdict(normal(6).map(toF16), "F32").evidence, /precision is that of float16/);
  assert.doesNotMatch(verdict(normal(6).map(Math.fround), "F32").evidence, /precision/);
  assert.equal(found(normal(6, 0.05).map((value) => toBf16(1 + value)), "F32"), undefined);
});

/** All numbers of an 8-bit float format, from its definition. */
const floats8 = (exponentBits, mantissaBits, bias, most) => {
  const number = (exponent, mantissa) => (exponent === 0 ? mantissa * 2 ** (1 - bias - mantissaBits) : (1 + mantissa / 2 ** mantissaBits) * 2 ** (exponent - bias));
  const numbers = Array.from({ length: 2 ** exponentBits }, (_, exponent) => Array.from({ length: 2 ** mantissaBits }, (_, mantissa) => number(exponent, mantissa)));
  return numbers.flat().filter((value) => value <= most);
};

test("8-bit floats with scales of rows, groups and blocks, and without", () => {
  const formats = { E4M3: floats8(4, 3, 7, 448), E5M2: floats8(5, 2, 15, 57344) };
  for (const [name, magnitudes] of Object.entries(formats)) {
    const table = magnitudes.flatMap((value) => [value, -value]);
    for (const dtype of ["BF16", "F32"]) {
      for (const group of [32, 128, COLUMNS]) {
        const unit = group === COLUMNS ? "row" : group;
        assert.deepEqual(found(quantised(dtype, group, coded(table, magnitudes.at(-1))), dtype), [name, unit, 8], `${name}, ${dtype}, ${group}`);
      }
      assert.deepEqual(found(quantised(dtype, ROWS * COLUMNS, coded(table, magnitudes.at(-1), powerOfTwo)), dtype), [name, "tensor", 8]);
    }
    assert.equal(verdict(quantised("BF16", 128, coded(table, magnitudes.at(-1))), "BF16").title, `Consistent with 8-bit floats (${name}), group size 128: not 4-bit`);
  }
});

test("a verdict claims no more than was read", () => {
  const values = quantised("BF16", 32, symmetric(4));
  const all = verdict(values, "BF16");
  assert.match(all.title, /^Consistent with 4-bit quantisation, group size 32$/);
  assert.match(all.evidence, /^Each of 384 groups of 32 values along rows has 16 levels at most, which are multiples of one step; the steps differ, from [\d.e−]+ to [\d.e−]+\./);
  assert.doesNotMatch(all.evidence, /Compared with grids/);
  const sampled = verdict(values, "BF16", { total: 100 * values.length });
  assert.equal(sampled.title, "Consistent with 4-bit quantisation, group size 32, in the rows checked");
  assert.match(sampled.evidence, /Compared with grids: 12,288 values in 12 rows \(1\.00 %\)\.$/);
  const zeros = new Float64Array(4096);
  assert.equal(verdict(zeros, "F32").title, "All values are 0");
  assert.equal(verdict(zeros, "F32", { total: 9999 }).title, "All values that were read are 0");
  assert.equal(verdict(zeros.fill(Number.NaN), "F32").title, "No finite value was read");
  const many = Float64Array.from({ length: 80_000 }, (_, i) => Math.fround(Math.sin(i + 1)));
  assert.match(verdict(many, "F32", { columns: 800 }).title, /^No grid found: more than 65,536 distinct values/);
});

test("values that are not finite are left out, not claimed", () => {
  const values = quantised("F16", 64, symmetric(4));
  values.fill(Number.NaN, 130, 140);
  values[5] = Number.POSITIVE_INFINITY;
  assert.deepEqual(found(values, "F16"), ["uniform", 64, 4]);
  assert.match(verdict(values, "F16").evidence, /11 NaN or ∞ are not counted\./);
});

test("quantised formats and short dtypes state their stored bits", () => {
  const values = quantised("F32", 32, withMinimum(4));
  const about = (info) => verdictOf(levels(values, "F32"), { shape: [ROWS, COLUMNS], ...info }).title;
  assert.equal(about({ dtype: "F32", format: "Q4_K", originalLength: (ROWS * COLUMNS * 144) / 256 }), "Stored as Q4_K: 4.50 bits per value, with scales");
  assert.equal(about({ dtype: "BF16", format: "pack-quantized", originalLength: (ROWS * COLUMNS * 17) / 32 }), "Stored as pack-quantized: 4.25 bits per value, with scales");
  assert.equal(about({ dtype: "F8_E4M3" }), "Stored with 8 bits per value (F8_E4M3)");
  assert.equal(about({ dtype: "F4" }), "Stored with 4 bits per value (F4)");
  const integers = Float64Array.from({ length: 4096 }, (_, i) => (i % 16) - 8);
  const codes = verdictOf(levels(integers, "I32", { columns: 64 }), { dtype: "I32", shape: [64, 64] });
  assert.equal(codes.title, "Integers from −8 to 7");
  assert.match(codes.evidence, /^16 distinct values in the 4,096 that were read\. Each may contain several packed codes\.$/);
});

test("a large tensor takes a bounded time, whatever its values are", () => {
  const rows = 1024;
  for (const value of [(i) => Math.fround(Math.sin(i)), (i) => (i % 255) - 127, () => 1, (i) => 2 ** -(i % 120)]) {
    const numbers = Float32Array.from({ length: rows * 512 }, (_, i) => value(i));
    const begin = performance.now();
    const report = levelsOf({ blocks: [{ rowBegin: 0, rowEnd: rows, numbers }], columns: 512, total: numbers.length, dtype: "F32" });
    assert.ok(report.checkedValues <= 1 << 17 && report.checkedRows > 100);
    assert.ok(performance.now() - begin < 20_000);
  }
});

/** Returns the titles of the verdicts for the matrices of a file, as if their values had been stored as floats. */
async function titles(folder, file) {
  const model = await open(vectorPath(folder, file));
  const matrices = [...model.tensors.values()].filter(({ dtype, shape, byteLength }) => /^(BF16|F16|F32)$/.test(dtype) && shape.length === 2 && byteLength >= 1024);
  const titles = matrices.map(async ({ name, dtype, shape, format }) => {
    const numbers = (await model.tensor(name)).toFloat32();
    const report = levelsOf({ blocks: [{ rowBegin: 0, rowEnd: shape[0], numbers }], columns: shape[1], total: numbers.length, dtype });
    return [format, verdictOf(report, { dtype, shape }).title];
  });
  const found = await Promise.all(titles);
  model.close();
  return found;
}

test("weights that compressed-tensors quantised and restored", async () => {
  const expected = {
    pack_w4_g32_sym: "4-bit quantisation, group size 32",
    pack_w4_g32_asym: "4-bit quantisation, group size 32",
    pack_w4_channel_asym: "4-bit quantisation, one scale per row",
    pack_w4_tensor_sym: "4-bit quantisation, one scale",
    pack_w3_g32_asym_dense: "3-bit quantisation, group size 32",
    marlin24_w4_g128_in512: "4-bit quantisation, group size 128",
    mxfp4_g32: "4-bit floats (E2M1), group size 32",
    nvfp4_g16: "4-bit floats (E2M1), group size 16",
    int8_channel_asym: "8-bit quantisation, one scale per row: not 4-bit",
    int8_tensor_sym: "8-bit quantisation, one scale: not 4-bit",
    fp8_channel: "8-bit floats (E4M3), one scale per row: not 4-bit",
  };
  for (const [name, title] of Object.entries(expected)) {
    const found = await titles("compressed-tensors", `${name}.dense.safetensors`);
    assert.ok(found.length > 0, name);
    for (const [, own] of found) assert.equal(own, `Consistent with ${title}`, name);
  }
});

test("the values of GGUF's blocks, as llama.cpp restores them", async () => {
  const expected = {
    Q4_0: "4-bit quantisation, group size 32",
    Q4_1: "4-bit quantisation, group size 32",
    Q5_0: "5-bit quantisation, group size 32: not 4-bit",
    Q5_1: "5-bit quantisation, group size 32: not 4-bit",
    Q8_0: "8-bit quantisation, group size 32: not 4-bit",
    Q2_K: "2-bit quantisation, group size 16",
    Q3_K: "3-bit quantisation, group size 16",
    Q4_K: "4-bit quantisation, group size 32",
    Q5_K: "5-bit quantisation, group size 32: not 4-bit",
    Q6_K: "6-bit quantisation, group size 16: not 4-bit",
    MXFP4: "4-bit floats (E2M1), group size 32",
    NVFP4: "4-bit floats (E2M1), group size 16",
  };
  const seen = new Set();
  for (const file of ["legacy-blocks.gguf", "k-blocks.gguf", "random-blocks-1.gguf"]) {
    for (const [format, title] of await titles("gguf", file)) {
      if (!Object.hasOwn(expected, format)) continue;
      assert.equal(title, `Consistent with ${expected[format]}`, `${format} of ${file}`);
      seen.add(format);
    }
  }
  assert.deepEqual([...seen].sort(), Object.keys(expected).sort());
});
