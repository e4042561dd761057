/** Models that a viewer finds hard: many tensors, and one too large to be read unasked. */

import { writeFile } from "node:fs/promises";
import { safetensors } from "./checkpoint.mjs";

/** Names of a deep network: `blocks` blocks of ten tensors, none of them larger than a few bytes. */
export function manyTensors(blocks) {
  const parts = ["attn.q", "attn.k", "attn.v", "attn.o", "mlp.up", "mlp.gate", "mlp.down", "norm_1", "norm_2", "scale"];
  const tensor = (seed) => ({ dtype: seed % 3 === 0 ? "F32" : "BF16", shape: seed % 3 === 0 ? [2] : [2, 2], bytes: new Uint8Array(8).fill(seed % 60) });
  const entries = Array.from({ length: blocks }, (_, block) => parts.map((part, i) => [`model.layers.${block}.${part}.weight`, tensor(block + i)])).flat();
  return safetensors(Object.fromEntries(entries), { format: "pt" });
}

export const LARGE = { name: "embeddings.word.weight", rows: 30_000, columns: 768 };

/** Value of the large tensor, exact in bfloat16: the row's number can be read from any value. */
export const largeValue = (row, column) => ((row % 127) - 63) / 64 + (column === row % 768 ? 2 : 0);

/** A file with one bfloat16 tensor of 30 000 × 768 and a small one. Returns the bytes of the large one. */
export async function writeLarge(path) {
  const { rows, columns, name } = LARGE;
  const data = new Uint16Array(rows * columns);
  const one = new Float32Array(1);
  const bits = new Uint32Array(one.buffer);
  for (let row = 0; row < rows; row++) {
    one[0] = largeValue(row, -1);
    data.fill(bits[0] >>> 16, row * columns, (row + 1) * columns);
    one[0] = largeValue(row, row % 768);
    data[row * columns + (row % 768)] = bits[0] >>> 16;
  }
  const bytes = new Uint8Array(data.buffer);
  const norm = new Uint8Array(Float32Array.from({ length: columns }, (_, i) => 1 + i / columns).buffer);
  await writeFile(path, safetensors({ [name]: { dtype: "BF16", shape: [rows, columns], bytes }, "embeddings.norm.weight": { dtype: "F32", shape: [columns], bytes: norm } }));
  return bytes;
}
