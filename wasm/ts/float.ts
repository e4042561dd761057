/** 16-bit floats to 32-bit floats. Both conversions are exact and keep the payload bits of NaN. */

/** Fills `out` from `bits[begin]` on. bfloat16 is the upper half of a 32-bit float. */
export function bfloat16ToFloat32(bits: Uint16Array, begin: number, out: Float32Array): void {
  const outBits = new Uint32Array(out.buffer, out.byteOffset, out.length);
  for (let i = 0; i < out.length; i++) outBits[i] = bits[begin + i]! << 16;
}

/** Fills `out` from `bits[begin]` on. IEEE 754 binary16: 1 sign, 5 exponent, 10 mantissa bits. */
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
