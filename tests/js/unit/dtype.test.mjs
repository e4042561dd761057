import assert from "node:assert/strict";
import { test } from "node:test";
import { DTYPE_NAMES, toFloat32, typedArray } from "../../../wasm/dist/dtype.js";
import { createTensor } from "../../../wasm/dist/tensor.js";

const ARRAYS = {
  F64: Float64Array, F32: Float32Array, F16: Uint16Array, BF16: Uint16Array, C64: Float32Array,
  I64: BigInt64Array, I32: Int32Array, I16: Int16Array, I8: Int8Array,
  U64: BigUint64Array, U32: Uint32Array, U16: Uint16Array, U8: Uint8Array, BOOL: Uint8Array,
  F8_E4M3: Uint8Array, F8_E5M2: Uint8Array, F8_E8M0: Uint8Array, F8_E4M3FNUZ: Uint8Array, F8_E5M2FNUZ: Uint8Array,
  F6_E2M3: Uint8Array, F6_E3M2: Uint8Array, F4: Uint8Array,
};

test("the table has the 22 dtypes of safetensors", () => {
  assert.deepEqual([...DTYPE_NAMES].sort(), Object.keys(ARRAYS).sort());
});

for (const [dtype, array] of Object.entries(ARRAYS)) {
  test(`${dtype} comes in ${array.name}, over the same bytes`, () => {
    const bytes = Uint8Array.from({ length: 48 }, (_, i) => i);
    const data = typedArray(dtype, "t", bytes);
    assert.equal(data.constructor, array);
    assert.equal(data.buffer, bytes.buffer, "aligned bytes are not copied");
    assert.equal(data.byteLength, 48);
  });

  test(`${dtype} from bytes that are not aligned`, () => {
    const bytes = Uint8Array.from({ length: 49 }, (_, i) => i).subarray(1);
    const data = typedArray(dtype, "t", bytes);
    assert.deepEqual(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), bytes);
  });
}

test("an unknown dtype is refused by name", () => {
  assert.throws(() => typedArray("Q9", "w", new Uint8Array(8)), { name: "UnsupportedError", code: "unsupported", tensor: "w", message: /Q9/ });
  assert.throws(() => typedArray("constructor", "w", new Uint8Array(8)), { name: "UnsupportedError" });
});

test("numbers become 32-bit floats", () => {
  const cases = { F64: [1.5, -2], F32: [0.25, 3], I32: [-7, 2 ** 20], I16: [-7, 300], I8: [-7, 100], U32: [7, 2 ** 31], U16: [7, 60000], U8: [7, 255] };
  for (const [dtype, values] of Object.entries(cases)) {
    const data = ARRAYS[dtype].from(values);
    assert.deepEqual([...toFloat32(dtype, "t", data, 0, 2)], values, dtype);
    assert.deepEqual([...toFloat32(dtype, "t", data, 1, 2)], values.slice(1), `part of ${dtype}`);
  }
  assert.deepEqual([...toFloat32("I64", "t", BigInt64Array.of(-3n, 9n), 0, 2)], [-3, 9]);
  assert.deepEqual([...toFloat32("U64", "t", BigUint64Array.of(2n ** 63n), 0, 1)], [2 ** 63]);
});

test("complex numbers are not turned into floats, and the error says so", () => {
  const tensor = createTensor({ name: "w", dtype: "C64", shape: [1] }, typedArray("C64", "w", new Uint8Array(8)));
  assert.throws(() => tensor.toFloat32(), { name: "UnsupportedError", message: /C64/ });
});

test("booleans are 0 and 1; elements of 4 and 6 bits are counted, not their bytes", () => {
  const floats = (dtype, shape, bytes) => createTensor({ name: "w", dtype, shape }, typedArray(dtype, "w", Uint8Array.from(bytes)));
  assert.deepEqual([...floats("BOOL", [3], [0, 1, 1]).toFloat32()], [0, 1, 1]);
  const four = floats("F4", [2, 3], [0x10, 0x32, 0xf7]);
  assert.deepEqual([...four.toFloat32()], [0, 0.5, 1, 1.5, 6, -6]);
  assert.deepEqual([...four.toFloat32(3, 5)], [1.5, 6]);
  assert.throws(() => four.toFloat32(0, 7), { code: "invalid_input", message: /w has 6 elements/ });
  // The codes are 0x3f, 0x01, 0x20 and 0x1f, from the lowest bit on.
  const [narrow, wide] = ["F6_E2M3", "F6_E3M2"].map((dtype) => floats(dtype, [4], [0x7f, 0x00, 0x7e]));
  assert.deepEqual([[...narrow.toFloat32()], [...wide.toFloat32()]], [[-7.5, 0.125, -0, 7.5], [-28, 0.0625, -0, 28]]);
  assert.deepEqual([...narrow.toFloat32(1, 3)], [0.125, -0]);
});

test("8-bit floats, whole and in part", () => {
  const bytes = Uint8Array.of(0x38, 0xb8, 0x00, 0x7e);
  for (const [dtype, values] of Object.entries({ F8_E4M3: [1, -1, 0, 448], F8_E5M2: [0.5, -0.5, 0, Number.NaN], F8_E8M0: [2 ** -71, 2 ** 57, 2 ** -127, 0.5], F8_E4M3FNUZ: [0.5, -0.5, 0, 224], F8_E5M2FNUZ: [0.25, -0.25, 0, 49152] })) {
    const tensor = createTensor({ name: "w", dtype, shape: [4] }, typedArray(dtype, "w", bytes));
    assert.deepEqual([...tensor.toFloat32()], values, dtype);
    assert.deepEqual([...tensor.toFloat32(1, 3)], values.slice(1, 3), dtype);
  }
});

test("more floats than there is memory for are refused, with advice", () => {
  const data = { length: 2 ** 40 };
  assert.throws(() => toFloat32("U8", "w", data, 0, data.length), { name: "LimitError", code: "limit", tensor: "w", message: /in parts/ });
});

test("a part outside the tensor is refused", () => {
  const tensor = createTensor({ name: "w", dtype: "U8", shape: [4] }, Uint8Array.of(1, 2, 3, 4));
  assert.deepEqual([...tensor.toFloat32(1, 3)], [2, 3]);
  for (const [begin, end] of [[0, 5], [-1, 2], [3, 2], [0.5, 2]]) {
    assert.throws(() => tensor.toFloat32(begin, end), { name: "InvalidInputError" });
  }
});
