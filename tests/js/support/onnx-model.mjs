/** Writes small ONNX models whose tensors are bytes. */

const varint = (number) => (number < 128 ? [number] : [(number & 127) | 128, ...varint(number >> 7)]);
const bytes = (field, content) => Buffer.concat([Buffer.from([...varint((field << 3) | 2), ...varint(content.length)]), Buffer.from(content)]);
const text = (field, content) => bytes(field, new TextEncoder().encode(content));
const number = (field, value) => Buffer.from([...varint(field << 3), ...varint(value)]);

/** Returns a model of tensors of U8 with a `shape` and either `raw` values or the keys of `external` ones. */
export function onnxModel(tensors) {
  const messages = tensors.map(({ name, shape, raw, external }) => {
    const place = raw ? [bytes(9, raw)] : [...Object.entries(external).map(([key, value]) => bytes(13, Buffer.concat([text(1, key), text(2, value)]))), number(14, 1)];
    return bytes(5, Buffer.concat([...shape.map((size) => number(1, size)), number(2, 2), text(8, name), ...place]));
  });
  return new Uint8Array(Buffer.concat([number(1, 8), bytes(7, Buffer.concat(messages))]));
}
