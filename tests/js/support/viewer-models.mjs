/** Models that are difficult for a viewer: with many tensors, or with a tensor too large to be read without asking. */

import { writeFile } from "node:fs/promises";
import { safetensors } from "./checkpoint.mjs";
import { startServer } from "./server.mjs";

/** Returns a file with the tensor names of a deep network: `blocks` blocks of ten tensors, each of a few bytes. */
export function manyTensors(blocks) {
  const parts = ["attn.q", "attn.k", "attn.v", "attn.o", "mlp.up", "mlp.gate", "mlp.down", "norm_1", "norm_2", "scale"];
  const tensor = (seed) => ({ dtype: seed % 3 === 0 ? "F32" : "BF16", shape: seed % 3 === 0 ? [2] : [2, 2], bytes: new Uint8Array(8).fill(seed % 60) });
  const entries = Array.from({ length: blocks }, (_, block) => parts.map((part, i) => [`model.layers.${block}.${part}.weight`, tensor(block + i)])).flat();
  return safetensors(Object.fromEntries(entries), { format: "pt" });
}

export const LARGE = { name: "embeddings.word.weight", rows: 30_000, columns: 768 };

const TABLE_BITS = 12;
/** A table of values that are distributed roughly like weights: many small values, and few large ones. */
const table = Uint16Array.from({ length: 1 << TABLE_BITS }, (_, i) => new Uint32Array(Float32Array.of((i / 2 ** (TABLE_BITS - 1) - 1) ** 3).buffer)[0] >>> 16);
const values = Float32Array.from(table, (bits) => new Float32Array(Uint32Array.of(bits << 16).buffer)[0]);

/**
 * Returns the position of an element's value in the table. It is the same in every run, without a pattern that a packer
 * could use.
 */
function place(row, column) {
  let mixed = Math.imul(row * LARGE.columns + column + 1, 2654435761);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 2246822519);
  return (mixed ^ (mixed >>> 13)) >>> (32 - TABLE_BITS);
}

/** Returns a value of the large tensor, which bfloat16 represents exactly. */
export const largeValue = (row, column) => values[place(row, column)];

/** Writes a file with one bfloat16 tensor of 30 000 × 768 and a small tensor. */
export async function writeLarge(path) {
  const { rows, columns, name } = LARGE;
  const data = new Uint16Array(rows * columns);
  for (let row = 0, i = 0; row < rows; row++) for (let column = 0; column < columns; column++, i++) data[i] = table[place(row, column)];
  const bytes = new Uint8Array(data.buffer);
  const norm = new Uint8Array(Float32Array.from({ length: columns }, (_, i) => 1 + i / columns).buffer);
  await writeFile(path, safetensors({ [name]: { dtype: "BF16", shape: [rows, columns], bytes }, "embeddings.norm.weight": { dtype: "F32", shape: [columns], bytes: norm } }));
}

/**
 * Returns a file with bfloat16 tensors of 128 × 1024: quantised to 4 bits in groups of 32, to 8 bits per row, and not at
 * all; and an MXFP4 tensor in the layout of GPT-OSS.
 */
export function quantisedModel() {
  const [rows, columns] = [128, 1024];
  const round = (value) => {
    const bits = new Uint32Array(Float32Array.of(value).buffer)[0];
    return new Float32Array(Uint32Array.of((bits + 0x7fff + ((bits >>> 16) & 1)) & 0xffff0000).buffer)[0];
  };
  const plain = Float32Array.from({ length: rows * columns }, (_, i) => round(largeValue(i >> 8, i & 255) * 0.1));
  const quantised = (group, most) => {
    const values = plain.slice();
    for (let at = 0; at < values.length; at += group) {
      const own = values.subarray(at, at + group);
      const scale = round(own.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0) / (most + 0.5));
      own.forEach((value, i) => (own[i] = round(Math.max(-most - 1, Math.min(most, Math.round(value / scale))) * scale)));
    }
    return values;
  };
  const bf16 = (values) => ({ dtype: "BF16", shape: [rows, columns], bytes: new Uint8Array(Uint16Array.from(values, (value) => new Uint32Array(Float32Array.of(value).buffer)[0] >>> 16).buffer) });
  const codes = Uint8Array.from({ length: 2 * 64 * 4 * 16 }, (_, i) => (i * 151 + (i >> 6) * 13) % 256);
  const scales = Uint8Array.from({ length: 2 * 64 * 4 }, (_, i) => 127 + (i % 5) - 2);
  return safetensors({
    "real.weight": bf16(quantised(32, 7)),
    "fake.weight": bf16(quantised(columns, 127)),
    "plain.weight": bf16(plain),
    "experts.down_proj_blocks": { dtype: "U8", shape: [2, 64, 4, 16], bytes: codes },
    "experts.down_proj_scales": { dtype: "U8", shape: [2, 64, 4], bytes: scales },
  });
}

/** The layout of a model with 70 billion parameters: nine modules in each layer. */
export const HUGE = { layers: 80, modules: 9 };

/** Returns the header of that model as a safetensors file in BF16, and the length of the file. */
export function hugeHeader() {
  const [width, key, hidden, words] = [8192, 1024, 28_672, 128_256];
  const modules = [
    ["self_attn.q_proj", [width, width]],
    ["self_attn.k_proj", [key, width]],
    ["self_attn.v_proj", [key, width]],
    ["self_attn.o_proj", [width, width]],
    ["mlp.gate_proj", [hidden, width]],
    ["mlp.up_proj", [hidden, width]],
    ["mlp.down_proj", [width, hidden]],
    ["input_layernorm", [width]],
    ["post_attention_layernorm", [width]],
  ];
  const layers = Array.from({ length: HUGE.layers }, (_, layer) => modules.map(([module, shape]) => [`model.layers.${layer}.${module}.weight`, shape])).flat();
  const tensors = [["model.embed_tokens.weight", [words, width]], ...layers, ["model.norm.weight", [width]], ["lm_head.weight", [words, width]]];
  const header = {};
  let position = 0;
  for (const [name, shape] of tensors) {
    const length = 2 * shape.reduce((a, b) => a * b, 1);
    header[name] = { dtype: "BF16", shape, data_offsets: [position, position + length] };
    position += length;
  }
  const text = JSON.stringify(header);
  const json = Buffer.from(text.padEnd(Math.ceil(text.length / 8) * 8));
  const start = Buffer.alloc(8);
  start.writeBigUInt64LE(BigInt(json.length));
  return { head: Buffer.concat([start, json]), fileBytes: 8 + json.length + position, parameters: position / 2 };
}

/** Serves that model to any page. Its weights are zeros, generated on request. */
export async function serveHuge() {
  const { head, fileBytes } = hugeHeader();
  let sentBytes = 0;
  const cors = { "access-control-allow-origin": "*", "access-control-allow-headers": "*", "access-control-expose-headers": "*" };
  const server = await startServer((request, response) => {
    if (request.method === "OPTIONS") return response.writeHead(204, cors).end();
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "") ?? [];
    if (first === undefined) return response.writeHead(200, { ...cors, "accept-ranges": "bytes", "content-length": fileBytes }).end();
    const [begin, end] = [Number(first), Math.min(Number(last) + 1, fileBytes)];
    const part = Buffer.alloc(end - begin);
    if (begin < head.length) head.copy(part, 0, begin, Math.min(end, head.length));
    sentBytes += part.length;
    return response.writeHead(206, { ...cors, "accept-ranges": "bytes", "content-range": `bytes ${begin}-${end - 1}/${fileBytes}`, "content-length": part.length, etag: '"huge"' }).end(part);
  });
  return { ...server, url: `${server.url}model.safetensors`, sentBytes: () => sentBytes };
}

/**
 * Returns the tensors of a small model with planted damage: NaN in row 300 of `layers.2.q`, an infinite value in row 10 of
 * `layers.4.q`, 20 rows of zeros from row 260 on in `layers.3.q`, an outlier in row 40 and column 7 of `layers.1.q`, only
 * zeros in `layers.0.k`, and three times the usual values in `layers.5.k`. With `isHealthy` there is none of it.
 */
export function damagedModel(isHealthy = false) {
  let state = 7;
  const noise = () => ((state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32 - 0.5) / 10 || 0.01;
  const columns = 256;
  const matrix = (rows, change = () => {}) => {
    const values = Float32Array.from({ length: rows * columns }, noise);
    if (!isHealthy) change(values);
    return { dtype: "BF16", shape: [rows, columns], bytes: new Uint8Array(Uint16Array.from(new Uint32Array(values.buffer), (bits) => bits >>> 16).buffer) };
  };
  const rows = (first, count, value) => (values) => values.fill(value, first * columns, (first + count) * columns);
  const damage = {
    "2.q": rows(300, 1, Number.NaN),
    "4.q": (values) => (values[10 * columns + 5] = Number.NEGATIVE_INFINITY),
    "3.q": rows(260, 20, 0),
    "1.q": (values) => (values[40 * columns + 7] = 50),
    "0.k": (values) => values.fill(0),
    "5.k": (values) => values.forEach((value, i) => (values[i] = 3 * value)),
  };
  const layers = Array.from({ length: 6 }, (_, layer) => ["q", "k"].map((kind) => [`model.layers.${layer}.${kind}.weight`, matrix(kind === "q" ? 512 : 256, damage[`${layer}.${kind}`])])).flat();
  const norms = Array.from({ length: 6 }, (_, layer) => [`model.layers.${layer}.norm.weight`, { dtype: "F32", shape: [columns], bytes: new Uint8Array(new Float32Array(columns).fill(1).buffer) }]);
  return Object.fromEntries([["model.embed_tokens.weight", matrix(300)], ...layers, ...norms, ["model.position_ids", { dtype: "I64", shape: [1, 8], bytes: new Uint8Array(64) }]]);
}
