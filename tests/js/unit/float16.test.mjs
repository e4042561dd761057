/** Conversion to 16-bit floats, in runtimes with and without `Float16Array`. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { open } from "zstn";
import { float16ToFloat32, toFloat16Bits } from "../../../wasm/dist/float.js";
import { safetensors, xorshift } from "../support/checkpoint.mjs";

/** The values of all 16-bit patterns that are numbers, ascending, without negative zero. */
const values = new Float32Array(65536);
float16ToFloat32(Uint16Array.from({ length: 65536 }, (_, i) => i), 0, values);
const finite = [...values.subarray(0, 0x7c00)];

const bitsOf = (...numbers) => {
  const out = new Uint16Array(numbers.length);
  toFloat16Bits(numbers, out);
  return [...out];
};

test("every 16-bit float is itself", () => {
  for (let bits = 0; bits < 65536; bits++) {
    const [found] = bitsOf(values[bits]);
    if (Number.isNaN(values[bits])) assert.equal(found & 0x7fff, 0x7e00);
    else assert.equal(found, bits);
  }
});

test("numbers in between become the nearest one, and of two as near the even one", () => {
  for (let bits = 0; bits + 1 < finite.length; bits++) {
    const [low, high] = [finite[bits], finite[bits + 1]];
    const middle = (low + high) / 2; // exact
    const even = bits % 2 === 0 ? bits : bits + 1;
    // The nearest doubles on both sides of the middle: converted through 32 bits, they would be rounded to the middle.
    const step = middle * 2 ** -52;
    const expected = [bits, even, bits + 1];
    assert.deepEqual(bitsOf(middle - step, middle, middle + step), expected, String(low));
    assert.deepEqual(bitsOf(-(middle - step), -middle, -(middle + step)), expected.map((each) => each | 0x8000));
  }
});

test("what is too large is infinite, and what is too small zero of the same sign", () => {
  assert.deepEqual(bitsOf(65519.99999, 65520, 1e5, 3.4e38, 1e308, Infinity), [0x7bff, 0x7c00, 0x7c00, 0x7c00, 0x7c00, 0x7c00]);
  assert.deepEqual(bitsOf(-65519.99999, -65520, -1e308, -Infinity), [0xfbff, 0xfc00, 0xfc00, 0xfc00]);
  assert.deepEqual(bitsOf(0, -0, 2 ** -25, 2 ** -25 * 1.0000001, 5e-324, -5e-324, -(2 ** -25)), [0, 0x8000, 0, 1, 0, 0x8000, 0x8000]);
  assert.deepEqual(bitsOf(NaN), [0x7e00]);
});

const random = xorshift(16);
const bytes = (array) => new Uint8Array(array.buffer);
const randomBits = new Uint16Array(70_000).map(random);
const float32 = new Float32Array(Uint32Array.from({ length: 70_000 }, random).buffer);
const tensors = {
  F16: randomBits,
  BF16: randomBits,
  F32: float32,
  F64: Float64Array.of(1 + 2 ** -11 + 2 ** -40, 2049, -1e300, NaN, 65519.999999),
  I32: Int32Array.of(0, -3, 2049, 65519, 65520, -70_000),
  I64: BigInt64Array.of(-2n, 70_000n),
  U8: Uint8Array.of(0, 255),
  F8_E4M3: Uint8Array.from({ length: 256 }, (_, i) => i),
  F8_E5M2: Uint8Array.from({ length: 256 }, (_, i) => i),
  F8_E8M0: Uint8Array.from({ length: 256 }, (_, i) => i),
  F8_E4M3FNUZ: Uint8Array.from({ length: 256 }, (_, i) => i),
  F8_E5M2FNUZ: Uint8Array.from({ length: 256 }, (_, i) => i),
  BOOL: Uint8Array.of(0, 1),
  C64: Float32Array.of(1, 2),
};
const file = safetensors(Object.fromEntries(Object.entries(tensors).map(([dtype, data]) => [dtype, { dtype, shape: [dtype === "C64" ? 1 : data.length], bytes: bytes(data) }])));

/** Runs `work` with the runtime's own `Float16Array` if it has one, without one, and with a substitute. */
async function everywhere(work) {
  const own = globalThis.Float16Array;
  class Stand {
    constructor(buffer) {
      this.buffer = buffer;
    }
  }
  try {
    for (const type of [own, undefined, Stand]) {
      globalThis.Float16Array = type;
      await work(type);
    }
  } finally {
    if (own) globalThis.Float16Array = own;
    else delete globalThis.Float16Array;
  }
}

test("toFloat16 of every dtype that has numbers, in every runtime", async () => {
  const model = await open(new Uint8Array(file));
  await everywhere(async (type) => {
    for (const [dtype, data] of Object.entries(tensors)) {
      const tensor = await model.tensor(dtype);
      if (dtype === "C64") {
        assert.throws(() => tensor.toFloat16(), { code: "unsupported" });
        continue;
      }
      const half = tensor.toFloat16();
      assert.ok(half instanceof (type ?? Uint16Array));
      const bits = new Uint16Array(half.buffer);
      assert.equal(bits.length, data.length);
      const numbers = dtype === "F64" ? data : tensor.toFloat32();
      const expected = new Uint16Array(data.length);
      if (dtype === "F16") expected.set(data);
      else toFloat16Bits(numbers, expected);
      assert.deepEqual(bits, expected, dtype);
      assert.deepEqual(new Uint16Array(tensor.toFloat16(1, 2).buffer), expected.slice(1, 2), dtype);
      for (const range of [[-1, 1], [1, 0], [0, data.length + 1], [0.5, 1]]) assert.throws(() => tensor.toFloat16(...range), { code: "invalid_input" });
      assert.ok(tensor.bytes.buffer !== half.buffer, "a copy");
    }
  });
});

test("the bits are those of the runtime's own conversion, where it has one", { skip: globalThis.Float16Array === undefined && "no Float16Array" }, () => {
  for (const numbers of [float32, Float64Array.from(float32, (value) => value * 1.000000001)]) {
    const own = new Uint16Array(new globalThis.Float16Array(numbers).buffer);
    const found = new Uint16Array(numbers.length);
    toFloat16Bits(numbers, found);
    for (const [i, value] of numbers.entries()) if (!Number.isNaN(value)) assert.equal(found[i], own[i], String(value));
  }
});

test("a type that cannot be converted is refused without elements too", async () => {
  const complex = await open(safetensors({ w: { dtype: "C64", shape: [0], bytes: new Uint8Array(0) } }));
  const none = await complex.tensor("w");
  assert.throws(() => none.toFloat16(), { code: "unsupported" });
  for (const dtype of ["F16", "F32", "F64", "I64", "BOOL", "F4", "F6_E2M3", "F6_E3M2"]) {
    const model = await open(safetensors({ w: { dtype, shape: [0], bytes: new Uint8Array(0) } }));
    assert.equal((await model.tensor("w")).toFloat16().length, 0, dtype);
  }
});
