/** Writes GGUF files of F32 tensors. */

const ALIGNMENT = 32;
const U16 = 2;
const TEXT = 8;
const F32 = 0;

const u32 = (value) => Buffer.from(Uint32Array.of(value).buffer);
const u64 = (value) => Buffer.from(BigUint64Array.of(BigInt(value)).buffer);
const text = (value) => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);
const padded = (bytes) => Buffer.concat([bytes, Buffer.alloc(-bytes.length & (ALIGNMENT - 1))]);

/**
 * Returns a GGUF file of version 3 with these texts, or numbers of 16 bits, as metadata. Each tensor has a `name`, a
 * `shape` and its `bytes`.
 */
export function ggufFile(metadata, tensors) {
  let offset = 0;
  const infos = tensors.map(({ name, shape, bytes }) => {
    const sizes = [...shape].reverse().map(u64);
    const info = [text(name), u32(shape.length), ...sizes, u32(F32), u64(offset)];
    offset += padded(bytes).length;
    return Buffer.concat(info);
  });
  const pairs = Object.entries(metadata).flatMap(([key, value]) => [text(key), ...(typeof value === "number" ? [u32(U16), Buffer.from(Uint16Array.of(value).buffer)] : [u32(TEXT), text(value)])]);
  const start = [Buffer.from("GGUF"), u32(3), u64(tensors.length), u64(Object.keys(metadata).length), ...pairs, ...infos];
  return Buffer.concat([padded(Buffer.concat(start)), ...tensors.map(({ bytes }) => padded(bytes))]);
}
