import assert from "node:assert/strict";
import { test } from "node:test";
import { bfloat16ToFloat32, float16ToFloat32, smallFloatToFloat32 } from "../../../wasm/dist/float.js";

const everyPattern = Uint16Array.from({ length: 65536 }, (_, i) => i);

/** Returns the value of a small float, computed from its definition. */
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

/**
 * The properties that the specification of each format states in addition to its layout: the patterns that are not
 * numbers, and the extreme values.
 */
const SMALL = {
  F8_E4M3: { exponentBits: 4, bias: 7, most: 448, least: 2 ** -9, nan: [0x7f, 0xff], infinite: [] },
  F8_E5M2: { exponentBits: 5, bias: 15, most: 57344, least: 2 ** -16, nan: [0x7d, 0x7e, 0x7f, 0xfd, 0xfe, 0xff], infinite: [0x7c, 0xfc] },
  F8_E4M3FNUZ: { exponentBits: 4, bias: 8, most: 240, least: 2 ** -10, nan: [0x80], infinite: [] },
  F8_E5M2FNUZ: { exponentBits: 5, bias: 16, most: 57344, least: 2 ** -17, nan: [0x80], infinite: [] },
};

/** Returns the value of a pattern, computed from its binary digits: sign, implied one or zero, binary fraction, scale. */
function byDigits(byte, { exponentBits, bias, nan, infinite }) {
  if (nan.includes(byte)) return Number.NaN;
  const digits = byte.toString(2).padStart(8, "0");
  const sign = digits[0] === "1" ? -1 : 1;
  if (infinite.includes(byte)) return sign * Number.POSITIVE_INFINITY;
  const exponent = Number.parseInt(digits.slice(1, 1 + exponentBits), 2);
  let significand = exponent === 0 ? 0 : 1;
  for (const [i, digit] of [...digits.slice(1 + exponentBits)].entries()) significand += digit === "1" ? 1 / 2 ** (i + 1) : 0;
  return sign * significand * 2 ** ((exponent === 0 ? 1 : exponent) - bias);
}

/** Returns the bytes of codes of `bits` bits, the first in the lowest bits, through one long number. */
function packedCodes(codes, bits) {
  const number = codes.reduceRight((number, code) => (number << BigInt(bits)) | BigInt(code), 0n);
  return Uint8Array.from({ length: (codes.length * bits) / 8 }, (_, i) => Number((number >> BigInt(8 * i)) & 255n));
}

/** The magnitudes of the elements of microscaling formats, as their specification lists or bounds them (5.3.1 to 5.3.3). */
const ELEMENTS = {
  F4: { bits: 4, exponentBits: 2, bias: 1, magnitudes: [0, 0.5, 1, 1.5, 2, 3, 4, 6] },
  F6_E2M3: { bits: 6, exponentBits: 2, bias: 1, most: 7.5, least: 0.125 },
  F6_E3M2: { bits: 6, exponentBits: 3, bias: 3, most: 28, least: 0.0625 },
};

for (const [dtype, { bits, exponentBits, bias, magnitudes, most, least }] of Object.entries(ELEMENTS)) {
  test(`all patterns of ${dtype}, packed and from any position`, () => {
    const codes = Array.from({ length: 2 ** bits }, (_, code) => code);
    // Padded with zeros on the right, a code is a byte of the same layout.
    const expected = codes.map((code) => byDigits(code << (8 - bits), { exponentBits, bias, nan: [], infinite: [] }));
    if (magnitudes) assert.deepEqual(expected.slice(0, 8), magnitudes);
    else assert.deepEqual([Math.max(...expected), Math.min(...expected.filter((value) => value > 0))], [most, least]);
    const bytes = packedCodes(codes, bits);
    for (const [begin, end] of [[0, codes.length], [1, 2], [3, 30], [5, 6], [7, codes.length], [codes.length, codes.length]].map((range) => range.map((at) => Math.min(at, codes.length)))) {
      const out = new Float32Array(end - begin);
      smallFloatToFloat32(dtype, bytes, begin, out);
      for (const [i, value] of out.entries()) assert.ok(Object.is(value, expected[begin + i]), `${begin + i}: ${value}`);
    }
  });
}

const everyByte = Uint8Array.from({ length: 256 }, (_, i) => i);

for (const [dtype, kind] of Object.entries(SMALL)) {
  test(`all 256 patterns of ${dtype}`, () => {
    const out = new Float32Array(256);
    smallFloatToFloat32(dtype, everyByte, 0, out);
    for (const byte of everyByte) assert.ok(Object.is(out[byte], byDigits(byte, kind)), `0x${byte.toString(16)}: ${out[byte]}`);
    const finite = [...out].filter(Number.isFinite);
    assert.deepEqual([Math.max(...finite), Math.min(...finite), Math.min(...finite.filter((value) => value > 0))], [kind.most, -kind.most, kind.least]);
    assert.equal(finite.length, 256 - kind.nan.length - kind.infinite.length);
  });
}

test("F8_E5M2 is the upper byte of a float16", () => {
  const [small, wide] = [new Float32Array(256), new Float32Array(256)];
  smallFloatToFloat32("F8_E5M2", everyByte, 0, small);
  float16ToFloat32(Uint16Array.from(everyByte, (byte) => byte << 8), 0, wide);
  assert.deepEqual([...small], [...wide]);
});

test("F8_E8M0 is the exponent of a 32-bit float", () => {
  const out = new Float32Array(256);
  smallFloatToFloat32("F8_E8M0", everyByte, 0, out);
  const bits = new Uint32Array(out.buffer);
  assert.equal(bits[0], 1 << 22, "2^-127 is a subnormal there");
  for (let byte = 1; byte < 255; byte++) assert.equal(bits[byte], byte << 23);
  assert.ok(Number.isNaN(out[255]));
});
