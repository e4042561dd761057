import assert from "node:assert/strict";
import { test } from "node:test";
import { bfloat16ToFloat32, float16ToFloat32 } from "../../../wasm/dist/float.js";

const everyPattern = Uint16Array.from({ length: 65536 }, (_, i) => i);

/** The value of a small float, from its definition. */
function definedValue(bits, exponentBits, mantissaBits) {
  const sign = bits >> 15 ? -1 : 1;
  const exponent = (bits >> mantissaBits) & (2 ** exponentBits - 1);
  const mantissa = bits & (2 ** mantissaBits - 1);
  const bias = 2 ** (exponentBits - 1) - 1;
  if (exponent === 2 ** exponentBits - 1) return mantissa ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  if (exponent === 0) return sign * (mantissa / 2 ** mantissaBits) * 2 ** (1 - bias);
  return sign * (1 + mantissa / 2 ** mantissaBits) * 2 ** (exponent - bias);
}

for (const [name, convert, exponentBits, mantissaBits] of [
  ["float16", float16ToFloat32, 5, 10],
  ["bfloat16", bfloat16ToFloat32, 8, 7],
]) {
  test(`all 65536 patterns of ${name}`, () => {
    const out = new Float32Array(65536);
    convert(everyPattern, 0, out);
    for (let bits = 0; bits < 65536; bits++) {
      const expected = definedValue(bits, exponentBits, mantissaBits);
      if (!Object.is(out[bits], expected)) assert.fail(`0x${bits.toString(16)}: ${out[bits]}, should be ${expected}`);
    }
  });

  test(`a part of a ${name} array`, () => {
    const out = new Float32Array(3);
    convert(everyPattern, 0x3f80, out);
    assert.deepEqual([...out], [0, 1, 2].map((i) => definedValue(0x3f80 + i, exponentBits, mantissaBits)));
  });
}

test("NaN keeps its payload bits", () => {
  const out = new Float32Array(1);
  float16ToFloat32(Uint16Array.of(0xfe01), 0, out);
  assert.equal(new Uint32Array(out.buffer)[0], 0xffc02000);
});
