/** Models with known values, given by a formula for each cell. */

import { readFile, writeFile } from "node:fs/promises";
import { pack } from "zstn";
import { safetensors } from "./checkpoint.mjs";

const one = new Float32Array(1);
const bits = new Uint32Array(one.buffer);

/** Rounds a value to bfloat16, towards zero. */
export function toBfloat16(value) {
  one[0] = value;
  bits[0] &= 0xffff0000;
  return one[0];
}

/** Returns a bfloat16 matrix with `valueOf(row, column)` in each cell. */
export function bfloat16Matrix(rows, columns, valueOf) {
  const words = new Uint16Array(rows * columns);
  for (let row = 0, i = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++, i++) {
      one[0] = valueOf(row, column);
      words[i] = bits[0] >>> 16;
    }
  }
  return { dtype: "BF16", shape: [rows, columns], bytes: new Uint8Array(words.buffer) };
}

/** Returns a float32 vector. */
export const float32Vector = (length, valueOf) => ({ dtype: "F32", shape: [length], bytes: new Uint8Array(Float32Array.from({ length }, (_, i) => valueOf(i)).buffer) });

/** Returns a pseudorandom number from -1 to 1, determined by its position. */
export function noise(row, column) {
  let mixed = Math.imul(row * 65_537 + column + 1, 2654435761);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 2246822519);
  return ((mixed ^ (mixed >>> 13)) >>> 0) / 2 ** 31 - 1;
}

/** An embedding with typical oddities: one column six times as large as the others, and zeros in the last rows. */
export const ODD = { name: "embeddings.word.weight", rows: 20_000, columns: 512, column: 256, factor: 6, zeroRows: 200 };

export function oddValue(row, column) {
  if (row >= ODD.rows - ODD.zeroRows) return 0;
  return toBfloat16(0.05 * noise(row, column) * (column === ODD.column ? ODD.factor : 1));
}

/** Layers of the same type. The values of layer `broken` are `factor` times as large. */
export const LAYERS = { count: 12, rows: 256, columns: 320, broken: 7, factor: 5, name: (layer) => `model.layers.${layer}.mlp.up.weight` };

export const layerValue = (layer, row, column) => toBfloat16(0.02 * noise(row + layer * 1000, column) * (layer === LAYERS.broken ? LAYERS.factor : 1));

/** Writes the embedding, and a matrix with one NaN at row 20 and column 80. */
export const writeOdd = (path) =>
  write(path, {
    [ODD.name]: bfloat16Matrix(ODD.rows, ODD.columns, oddValue),
    "broken.weight": { dtype: "F32", shape: [64, 96], bytes: float32Vector(64 * 96, (i) => (i === 20 * 96 + 80 ? Number.NaN : noise(i, 3))).bytes },
  });

/** Writes the layers, and a tensor that belongs to no layer. */
export const writeLayers = (path) =>
  write(path, {
    "norm.weight": float32Vector(600, () => 1),
    ...Object.fromEntries(Array.from({ length: LAYERS.count }, (_, layer) => [LAYERS.name(layer), bfloat16Matrix(LAYERS.rows, LAYERS.columns, (row, column) => layerValue(layer, row, column))])),
  });

/** Writes a short vector with one unusual value, and one that is too long to be read without asking. */
export const writeVectors = (path) =>
  write(path, {
    "norm.weight": float32Vector(600, (i) => (i === 100 ? -3 : 1 + noise(i, 0) / 10)),
    "long.bias": float32Vector(5_000_000, (i) => noise(i, 7) + i / 5e6),
  });

const write = (path, tensors) => writeFile(path, safetensors(tensors));

/** Packs a file, with or without statistics. */
export async function packWith(plain, packed, { statistics }) {
  const { blob } = await pack(await readFile(plain), { effort: "fast", statistics });
  await writeFile(packed, new Uint8Array(await blob.arrayBuffer()));
}
