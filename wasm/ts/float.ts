/**
 * Conversions between float formats: from any number to 16 bits, rounded, and from 16 and 8 bits to 32 bits, exactly.
 * 16-bit NaNs keep their payload; all 8-bit NaNs become the same NaN.
 */

/** Fills `out` with the converted elements from `bits[begin]` on. bfloat16 is the upper half of a 32-bit float. */
export function bfloat16ToFloat32(bits: Uint16Array, begin: number, out: Float32Array): void {
  const outBits = new Uint32Array(out.buffer, out.byteOffset, out.length);
  for (let i = 0; i < out.length; i++) outBits[i] = bits[begin + i]! << 16;
}

/**
 * Fills `out` with the converted elements from `bits[begin]` on. IEEE 754 binary16 has 1 sign, 5 exponent and 10
 * mantissa bits.
 */
export function float16ToFloat32(bits: Uint16Array, begin: number, out: Float32Array): void {
  const outBits = new Uint32Array(out.buffer, out.byteOffset, out.length);
  for (let i = 0; i < out.length; i++) {
    const half = bits[begin + i]!;
    const sign = (half & 0x8000) << 16;
    const exponent = (half >> 10) & 31;
    const mantissa = half & 0x3ff;
    if (exponent === 0) {
      const magnitude = mantissa * 2 ** -24; // zero and subnormals
      out[i] = sign === 0 ? magnitude : -magnitude;
    } else {
      // The exponent bias goes from 15 to 127; infinity and NaN keep all ones.
      const wide = exponent === 31 ? 255 : exponent + 112;
      outBits[i] = sign | (wide << 23) | (mantissa << 13);
    }
  }
}

const asDouble = /* @__PURE__ */ new Float64Array(1);
const asWords = /* @__PURE__ */ new Uint32Array(asDouble.buffer);

/**
 * Converts `values` to the bits of 16-bit floats, rounded to the nearest float, ties to even. Values that are too large
 * become infinite, and NaN stays NaN.
 */
export function toFloat16Bits(values: ArrayLike<number>, out: Uint16Array): void {
  for (let i = 0; i < out.length; i++) {
    const value = (asDouble[0] = values[i]!);
    const high = asWords[1]!;
    const exponent = Math.max(((high >>> 20) & 2047) - 1023, -14); // subnormals use the smallest exponent
    // Adding and subtracting 2^52 rounds to a whole number of steps, 1/1024 of the power of two below the value; a
    // carry moves into the exponent.
    const steps = Math.abs(value) * 2 ** (10 - exponent) + 2 ** 52 - 2 ** 52;
    const magnitude = value === value ? Math.min(steps + (exponent + 14) * 1024, 0x7c00) : 0x7e00;
    out[i] = ((high >>> 16) & 0x8000) | magnitude;
  }
}

/** The layout of an 8-bit float format: a sign bit, the exponent bits, and mantissa bits in the rest. */
interface SmallFloat {
  exponentBits: number;
  bias: number;
  /** Returns the value of the magnitudes that are infinite or NaN, and `undefined` for finite ones. */
  special: (magnitudeBits: number) => number | undefined;
  /** Set if the format has no negative zero: the code 0x80 is its only NaN. */
  noNegativeZero?: true;
}

/** The formats of the OCP 8-bit floating point specification (tables 1 and 2), and the FNUZ formats of AMD and Graphcore. */
const SMALL_FLOATS = {
  F8_E4M3: { exponentBits: 4, bias: 7, special: (bits) => (bits === 0x7f ? Number.NaN : undefined) },
  F8_E5M2: { exponentBits: 5, bias: 15, special: (bits) => (bits < 0x7c ? undefined : bits === 0x7c ? Number.POSITIVE_INFINITY : Number.NaN) },
  F8_E4M3FNUZ: { exponentBits: 4, bias: 8, special: () => undefined, noNegativeZero: true },
  F8_E5M2FNUZ: { exponentBits: 5, bias: 16, special: () => undefined, noNegativeZero: true },
} as const satisfies Record<string, SmallFloat>;

/** The dtypes that are floats of one byte. */
export type Float8Dtype = keyof typeof SMALL_FLOATS | "F8_E8M0";

const tables = new Map<Float8Dtype, Float32Array>();

/** Fills `out` with the converted elements from `bytes[begin]` on. */
export function float8ToFloat32(dtype: Float8Dtype, bytes: Uint8Array, begin: number, out: Float32Array): void {
  let table = tables.get(dtype);
  if (!table) {
    const value = dtype === "F8_E8M0" ? scaleValue : (byte: number) => smallValue(SMALL_FLOATS[dtype], byte);
    table = Float32Array.from({ length: 256 }, (_, byte) => value(byte));
    tables.set(dtype, table);
  }
  for (let i = 0; i < out.length; i++) out[i] = table[bytes[begin + i]!]!;
}

function smallValue({ exponentBits, bias, special, noNegativeZero }: SmallFloat, byte: number): number {
  if (noNegativeZero && byte === 0x80) return Number.NaN;
  const magnitudeBits = byte & 0x7f;
  const mantissaBits = 7 - exponentBits;
  const exponent = magnitudeBits >> mantissaBits;
  const mantissa = magnitudeBits - (exponent << mantissaBits);
  // Subnormals have the spacing of the smallest normal numbers, which have an implicit leading bit in addition.
  const steps = exponent === 0 ? mantissa : mantissa + (1 << mantissaBits);
  const magnitude = special(magnitudeBits) ?? steps * 2 ** (Math.max(exponent, 1) - bias - mantissaBits);
  return byte < 0x80 ? magnitude : -magnitude;
}

/**
 * Returns the value of an E8M0 scale, which consists of an exponent only: a power of two, or NaN (OCP microscaling
 * formats, 5.4.1).
 */
function scaleValue(byte: number): number {
  return byte === 0xff ? Number.NaN : 2 ** (byte - 127);
}
