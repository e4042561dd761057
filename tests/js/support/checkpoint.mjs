/** Synthetic checkpoints, whose values compress like trained weights and are the same in every run. */

import { writeFile } from "node:fs/promises";

/** Returns a small, fast, reproducible random number generator. */
export function xorshift(seed) {
  let state = seed >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
}

const TABLE_BITS = 14;

/** Returns a table of bfloat16 bits of normally distributed values. A table is used because 20 million logarithms take long. */
function normalTable(deviation, random) {
  const bits = new Uint16Array(1 << TABLE_BITS);
  const float = new Float32Array(1);
  const wide = new Uint32Array(float.buffer);
  for (let i = 0; i < bits.length; i++) {
    const u = (random() + 1) / 2 ** 32;
    const v = random() / 2 ** 32;
    float[0] = deviation * Math.sqrt(-2 * Math.log(u)) * Math.cos(2 * Math.PI * v);
    bits[i] = wide[0] >>> 16;
  }
  return bits;
}

export function bf16Tensor(elements, random) {
  const table = normalTable(0.02, random);
  const data = new Uint16Array(elements);
  for (let i = 0; i < elements; i++) data[i] = table[random() >>> (32 - TABLE_BITS)];
  return new Uint8Array(data.buffer);
}

function f32Tensor(elements, random) {
  const data = Float32Array.from({ length: elements }, () => 1 + (random() / 2 ** 32 - 0.5) / 10);
  return new Uint8Array(data.buffer);
}

/** Returns a safetensors file with `tensors`, a map of name → {dtype, shape, bytes}. */
export function safetensors(tensors, metadata) {
  const header = metadata ? { __metadata__: metadata } : {};
  const parts = [];
  let position = 0;
  for (const [name, { dtype, shape, bytes }] of Object.entries(tensors)) {
    header[name] = { dtype, shape, data_offsets: [position, position + bytes.byteLength] };
    position += bytes.byteLength;
    parts.push(bytes);
  }
  let json = JSON.stringify(header);
  json += " ".repeat((8 - (Buffer.byteLength(json) % 8)) % 8);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(Buffer.byteLength(json)));
  return Buffer.concat([length, Buffer.from(json), ...parts]);
}

/** The name of a tensor of 1,572,864 bytes in the checkpoint of `writeLanguageModel`. */
export const MIDDLE_TENSOR = "transformer.h.3.attn.c_attn.weight";

/** Writes a language model of about 41 MB: embeddings tied to the output, and five blocks. Returns its tensors. */
export async function writeLanguageModel(path) {
  const random = xorshift(20_26);
  const bf16 = (...shape) => ({ dtype: "BF16", shape, bytes: bf16Tensor(shape.reduce((a, b) => a * b, 1), random) });
  const f32 = (...shape) => ({ dtype: "F32", shape, bytes: f32Tensor(shape.reduce((a, b) => a * b, 1), random) });
  const embeddings = bf16(4800, 512);
  const tensors = { "lm_head.weight": embeddings, "transformer.wte.weight": embeddings, "transformer.wpe.weight": bf16(1024, 512) };
  for (let block = 0; block < 5; block++) {
    const name = `transformer.h.${block}`;
    tensors[`${name}.ln_1.weight`] = f32(512);
    tensors[`${name}.attn.c_attn.weight`] = bf16(512, 1536);
    tensors[`${name}.attn.c_proj.weight`] = bf16(512, 512);
    tensors[`${name}.ln_2.weight`] = f32(512);
    tensors[`${name}.mlp.c_fc.weight`] = bf16(512, 2048);
    tensors[`${name}.mlp.c_proj.weight`] = bf16(2048, 512);
  }
  tensors["transformer.ln_f.weight"] = f32(512);
  await writeFile(path, safetensors(tensors, { format: "pt", producer: "zstn tests" }));
  return tensors;
}
