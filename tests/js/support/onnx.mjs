/** ONNX models of one operation, written directly as protocol buffer fields. */

/** The numbers of element types in ONNX, by their names in ONNX Runtime. */
export const ELEMENT_TYPES = { float32: 1, uint8: 2, int8: 3, uint16: 4, int16: 5, int32: 6, int64: 7, bool: 9, float16: 10, float64: 11, uint32: 12, uint64: 13 };

function varint(value) {
  const bytes = [];
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return [...bytes, rest];
    bytes.push((rest % 128) + 128);
  }
}

const number = (field, value) => [...varint(field * 8), ...varint(value)];
const bytes = (field, content) => [...varint(field * 8 + 2), ...varint(content.length), ...content];
const text = (field, content) => bytes(field, [...Buffer.from(content)]);

/** Encodes a value of this type with `rank` dimensions of any length. */
function value(field, name, type, rank) {
  const shape = Array.from({ length: rank }, (_, i) => bytes(1, text(2, `${name}${i}`))).flat();
  const tensor = [...number(1, ELEMENT_TYPES[type]), ...bytes(2, shape)];
  return bytes(field, [...text(1, name), ...bytes(2, bytes(1, tensor))]);
}

/** Returns a model with one node. Inputs and outputs are [name, type, rank]. */
function oneNode(operation, inputs, outputs) {
  const node = [...inputs.flatMap(([name]) => text(1, name)), ...outputs.flatMap(([name]) => text(2, name)), ...text(4, operation)];
  const graph = [...bytes(1, node), ...text(2, "graph"), ...inputs.flatMap((input) => value(11, ...input)), ...outputs.flatMap((output) => value(12, ...output))];
  return Uint8Array.from([...number(1, 8), ...bytes(7, graph), ...bytes(8, number(2, 17))]);
}

/** A model that computes rows = table[ids]. */
export const lookup = () => oneNode("Gather", [["table", "float32", 2], ["ids", "int64", 1]], [["rows", "float32", 2]]);

/** A model that computes out = value, for any type. */
export const identity = (type) => oneNode("Identity", [["value", type, 1]], [["out", type, 1]]);
