/**
 * Conversions between float formats: from any number to 16 bits, rounded, and from 16 bits and less to 32 bits, exactly.
 * 16-bit NaNs keep their payload; all shorter NaNs become the same NaN.
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

/**
 * The layout of a float format of at most 8 bits: its length, the number of exponent bits, and the bias of the exponent.
 * The highest bit is the sign. Magnitudes above `lastNumber` are NaN; without it, only the code 0x80 is.
 */
type SmallFloat = readonly [bits: number, exponentBits: number, bias: number, lastNumber?: number];

/**
 * The formats of the OCP 8-bit floating point specification (tables 1 and 2), the FNUZ formats of AMD and Graphcore, and
 * the scale and the elements of the OCP microscaling formats (5.4.1 and 5.3). A scale is a power of two, or NaN.
 */
const SMALL_FLOATS = {
  F8_E4M3: [8, 4, 7, 0x7e],
  F8_E5M2: [8, 5, 15, 0x7c],
  F8_E8M0: [8, 8, 127],
  F8_E4M3FNUZ: [8, 4, 8],
  F8_E5M2FNUZ: [8, 5, 16],
  F6_E2M3: [6, 2, 1],
  F6_E3M2: [6, 3, 3],
  F4: [4, 2, 1],
} as const satisfies Record<string, SmallFloat>;

/** The dtypes that are floats of at most one byte. */
export type SmallFloatDtype = keyof typeof SMALL_FLOATS;

export const SMALL_FLOAT_DTYPES = /* @__PURE__ */ Object.keys(SMALL_FLOATS) as readonly SmallFloatDtype[];

/** Returns the number of elements in `bytes` bytes. Elements of 4 and 6 bits share bytes. */
export const smallFloatCount = (dtype: SmallFloatDtype, bytes: number): number => Math.floor((bytes * 8) / SMALL_FLOATS[dtype][0]);

const tables = new Map<SmallFloatDtype, Float32Array>();

/**
 * Fills `out` with the converted elements from index `begin` on. Elements shorter than a byte are packed: the first one
 * has the lowest bits.
 */
export function smallFloatToFloat32(dtype: SmallFloatDtype, bytes: Uint8Array, begin: number, out: Float32Array): void {
  const layout: SmallFloat = SMALL_FLOATS[dtype];
  const [bits] = layout;
  let table = tables.get(dtype);
  if (!table) tables.set(dtype, (table = Float32Array.from({ length: 1 << bits }, (_, code) => smallValue(layout, code))));
  let at = begin * bits;
  for (let i = 0; i < out.length; i++, at += bits) {
    const byte = Math.floor(at / 8);
    out[i] = table[((bytes[byte]! | (bytes[byte + 1]! << 8)) >> at % 8) & (table.length - 1)]!;
  }
}

function smallValue([bits, exponentBits, bias, lastNumber]: SmallFloat, code: number): number {
  if (exponentBits === 8) return code === 255 ? Number.NaN : 2 ** (code - bias);
  const signBit = 1 << (bits - 1);
  const magnitude = code % signBit;
  const mantissaBits = bits - 1 - exponentBits;
  const exponent = magnitude >> mantissaBits;
  const mantissa = magnitude - (exponent << mantissaBits);
  if (lastNumber ? magnitude > lastNumber : code === 0x80) return Number.NaN;
  // Subnormals have the spacing of the smallest normal numbers, which have an implicit leading bit in addition.
  const steps = exponent === 0 ? mantissa : mantissa + (1 << mantissaBits);
  // Only F8_E5M2 has an exponent as large as this, and uses it for infinity, as float16 does.
  const value = exponent - bias > 15 ? Number.POSITIVE_INFINITY : steps * 2 ** (Math.max(exponent, 1) - bias - mantissaBits);
  return code < signBit ? value : -value;
}
