/** A synthetic transformer, small enough to be bundled. Its weights resemble trained ones and are identical in every build. */

interface SampleTensor {
  readonly name: string;
  readonly dtype: "BF16" | "F32" | "BOOL";
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

const WIDTH = 128;
const VOCABULARY = 768;
const CONTEXT = 256;
const LAYERS = 4;
/** The blocks that differ in the fine-tune. */
const TUNED_LAYERS = [2, 3];

/**
 * Returns a generator of normally distributed numbers. It is small, fast and reproducible (xorshift); the quality of
 * the randomness does not matter here.
 */
function normal(seed: number): () => number {
  let state = seed >>> 0 || 1;
  const uniform = () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return ((state >>> 0) + 1) / 2 ** 32;
  };
  return () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
}

/** Returns the model, or its fine-tune: a low-rank update of some blocks, as merged adapters produce. */
export function sampleModel(tuned: boolean): Uint8Array<ArrayBuffer> {
  const draw = normal(2026);
  const tensors: SampleTensor[] = [];
  const add = (name: string, dtype: SampleTensor["dtype"], shape: readonly number[], value: (row: number, column: number) => number) => {
    const columns = shape.at(-1)!;
    const count = shape.reduce((product, size) => product * size, 1);
    tensors.push({ name, dtype, shape, values: Float32Array.from({ length: count }, (_, i) => value(Math.floor(i / columns), i % columns)) });
  };
  const matrix = (name: string, rows: number, columns: number, deviation: number) => {
    // Rows and columns differ in scale, and a few directions have larger values than the rest.
    const [across, down] = [Array.from({ length: columns }, () => Math.exp(0.35 * draw())), Array.from({ length: rows }, () => Math.exp(0.35 * draw()))];
    const [left, right] = [Array.from({ length: rows }, draw), Array.from({ length: columns }, draw)];
    add(name, "BF16", [rows, columns], (row, column) => deviation * (across[column]! * down[row]! * draw() + 0.6 * left[row]! * right[column]!));
  };
  matrix("transformer.wte.weight", VOCABULARY, WIDTH, 0.03);
  add("transformer.wpe.weight", "F32", [CONTEXT, WIDTH], (row, column) => {
    const angle = row / 10_000 ** ((2 * (column >> 1)) / WIDTH);
    return 0.02 * (column % 2 === 0 ? Math.sin(angle) : Math.cos(angle)) + 0.001 * draw();
  });
  for (let layer = 0; layer < LAYERS; layer++) {
    const name = `transformer.h.${layer}`;
    add(`${name}.ln_1.weight`, "F32", [WIDTH], () => 1 + 0.1 * draw());
    add(`${name}.attn.mask`, "BOOL", [64, 64], (row, column) => (column <= row ? 1 : 0));
    matrix(`${name}.attn.c_attn.weight`, WIDTH, 3 * WIDTH, 0.04);
    matrix(`${name}.attn.c_proj.weight`, WIDTH, WIDTH, 0.03);
    add(`${name}.ln_2.weight`, "F32", [WIDTH], () => 1 + 0.1 * draw());
    matrix(`${name}.mlp.c_fc.weight`, WIDTH, 4 * WIDTH, 0.04);
    matrix(`${name}.mlp.c_proj.weight`, 4 * WIDTH, WIDTH, 0.03);
  }
  add("transformer.ln_f.weight", "F32", [WIDTH], () => 1 + 0.1 * draw());
  tensors.push({ ...tensors[0]!, name: "lm_head.weight" });
  if (tuned) tune(tensors, normal(7));
  return safetensors(tensors, { format: "pt", title: tuned ? "A fine-tune of the sample" : "A made-up transformer to look at" });
}

function tune(tensors: readonly SampleTensor[], draw: () => number): void {
  for (const { name, shape, values } of tensors) {
    if (!TUNED_LAYERS.some((layer) => name.includes(`.h.${layer}.`)) || !/c_(attn|fc|proj)/.test(name)) continue;
    const [rows, columns] = shape as [number, number];
    const [left, right] = [Array.from({ length: rows }, (_, row) => draw() * (1 + Math.sin(row / 9))), Array.from({ length: columns }, draw)];
    for (let i = 0; i < values.length; i++) values[i]! += 0.004 * left[Math.floor(i / columns)]! * right[i % columns]!;
  }
}

function bytesOf({ dtype, values }: SampleTensor): Uint8Array<ArrayBuffer> {
  if (dtype === "BOOL") return Uint8Array.from(values);
  const own = Float32Array.from(values);
  if (dtype === "F32") return new Uint8Array(own.buffer);
  const halves = Uint16Array.from(new Uint32Array(own.buffer), (bits) => (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16);
  return new Uint8Array(halves.buffer);
}

function safetensors(tensors: readonly SampleTensor[], metadata: Record<string, string>): Uint8Array<ArrayBuffer> {
  const header: Record<string, unknown> = { __metadata__: metadata };
  const parts = tensors.map(bytesOf);
  let position = 0;
  for (const [i, { name, dtype, shape }] of tensors.entries()) {
    header[name] = { dtype, shape, data_offsets: [position, position + parts[i]!.byteLength] };
    position += parts[i]!.byteLength;
  }
  const text = JSON.stringify(header);
  const json = new TextEncoder().encode(text.padEnd(Math.ceil(text.length / 8) * 8));
  const file = new Uint8Array(8 + json.byteLength + position);
  new DataView(file.buffer).setBigUint64(0, BigInt(json.byteLength), true);
  file.set(json, 8);
  position = 8 + json.byteLength;
  for (const part of parts) {
    file.set(part, position);
    position += part.byteLength;
  }
  return file;
}
