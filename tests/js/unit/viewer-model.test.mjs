/** The viewer's answers about a model: what it is, from names, shapes and a configuration; whether it is healthy; the treemap. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

async function load(path) {
  const { outputFiles } = await build({ entryPoints: [fileURLToPath(new URL(`../../../web-demo/src/${path}`, import.meta.url))], bundle: true, format: "esm", write: false });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
}

globalThis.matchMedia = () => ({ addEventListener() {} });
const { factsOf } = await load("overview/about/facts.ts");
const { countParameters } = await load("overview/about/parameters.ts");
const { parseConfig } = await load("overview/about/config.ts");
const { checkup } = await load("overview/health/checks.ts");
const { placesOf, rangesText } = await load("overview/health/places.ts");
const { Structures, TreemapLayout } = await load("overview/picture/layout.ts");
const { treeOf } = await load("tree/node.ts");

const tensor = (name, shape, dtype = "BF16", more = {}) => {
  const byteLength = 2 * shape.reduce((product, size) => product * size, 1);
  return { name, shape, dtype, byteLength, storedLength: byteLength, parts: [], ...more };
};
const all = (shapes, dtype) => Object.entries(shapes).map(([name, shape]) => tensor(name, shape, dtype));
const repeated = (count, prefix, shapes, dtype) => Array.from({ length: count }, (_, i) => Object.entries(shapes).map(([name, shape]) => tensor(`${prefix}.${i}.${name}`, shape, dtype))).flat();
const config = (fields) => parseConfig(JSON.stringify(fields), "config.json");

/** Returns the facts about some tensors by key, as the page shows them, and the notes. */
function told(tensors, { file, name = "model.safetensors", metadata = {} } = {}) {
  const { facts, types, notes, needsConfig } = factsOf({ name, tensors, metadata, fileCount: 1 }, file);
  return { ...Object.fromEntries(facts.map(({ key, before, figure, after }) => [key, [before, figure, after].filter((part) => part !== undefined).join(" ")])), types, notes, needsConfig };
}

const llama = (layers = 3) => [
  tensor("model.embed_tokens.weight", [1000, 64]),
  ...repeated(layers, "model.layers", { "self_attn.q_proj.weight": [64, 64], "self_attn.k_proj.weight": [16, 64], "self_attn.v_proj.weight": [16, 64], "self_attn.o_proj.weight": [64, 64], "mlp.up_proj.weight": [192, 64], "mlp.down_proj.weight": [64, 192], "input_layernorm.weight": [64], "post_attention_layernorm.weight": [64] }),
  tensor("model.norm.weight", [64]),
  tensor("lm_head.weight", [1000, 64], "BF16", { aliasOf: "model.embed_tokens.weight" }),
];

test("a language model: the shapes tell all but the heads, which a configuration states", () => {
  const facts = told(llama());
  const parameters = 1000 * 64 + 3 * (64 * 64 * 2 + 16 * 64 * 2 + 192 * 64 * 2 + 128) + 64;
  assert.deepEqual([facts.parameters, facts.layers, facts.width, facts.vocabulary, facts.heads, facts.experts, facts.kind], [`${(parameters / 1000).toFixed(0)} k parameters`, "3 layers", "64 wide", "vocabulary 1,000", undefined, undefined, undefined]);
  assert.ok(facts.needsConfig);
  assert.match(facts.notes.join(), /1 tensor shares the bytes of another one and counts once/);
  const file = { architectures: ["LlamaForCausalLM"], hidden_size: 64, num_hidden_layers: 3, num_attention_heads: 8, num_key_value_heads: 2 };
  const stated = told(llama(), { file: config(file) });
  assert.deepEqual([stated.kind, stated.heads, stated.needsConfig], ["LlamaForCausalLM", "8 heads, 2 for keys and values", false]);
  for (const wrong of [{ hidden_size: 128 }, { num_hidden_layers: 4 }]) {
    const other = told(llama(), { file: config({ ...file, ...wrong }) });
    assert.deepEqual([other.heads, other.kind], [undefined, undefined], JSON.stringify(wrong));
    assert.match(other.notes.join(), /config\.json is not used/);
  }
  for (const wrong of [{ num_attention_heads: 7 }, { num_key_value_heads: 4 }, { head_dim: 16 }, { num_attention_heads: "8" }]) {
    assert.equal(told(llama(), { file: config({ ...file, ...wrong }) }).heads, undefined, JSON.stringify(wrong));
  }
  assert.deepEqual([parseConfig("{", "x"), parseConfig("[1]", "x"), parseConfig("null", "x")], [undefined, undefined, undefined]);
});

test("a normalisation of each head proves the number of heads; one over all heads does not", () => {
  const norms = (queries, keys) => [...llama(), ...repeated(3, "model.layers", { "self_attn.q_norm.weight": [queries], "self_attn.k_norm.weight": [keys] })];
  const per = told(norms(16, 16));
  assert.deepEqual([per.heads, per.width], ["4 heads, 1 for keys and values", "64 wide"]);
  assert.equal(told(norms(64, 16)).heads, undefined);
  // A gate doubles the rows of the queries, and the output projection shows the rows of the heads.
  const gated = norms(16, 16).map((one) => (/q_proj/.test(one.name) ? { ...one, shape: [128, 64] } : one));
  assert.equal(told(gated).heads, "4 heads, 1 for keys and values");
});

test("BERT, GPT-2, T5 and GGUF have other names for the same", () => {
  const bert = [...all({ "embeddings.word_embeddings.weight": [300, 32], "embeddings.position_embeddings.weight": [50, 32] }), tensor("embeddings.position_ids", [1, 50], "I64"), ...repeated(2, "encoder.layer", { "attention.self.query.weight": [32, 32], "attention.output.LayerNorm.weight": [32], "attention.output.LayerNorm.bias": [32], "intermediate.dense.weight": [128, 32] })];
  const facts = told(bert, { file: config({ hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 4 }) });
  assert.deepEqual([facts.layers, facts.width, facts.vocabulary, facts.heads], ["2 layers", "32 wide", "vocabulary 300", "4 heads"]);
  assert.match(facts.notes.join(), /Not counted: 50 values of 1 buffer/);

  const gpt = [tensor("wte.weight", [500, 48]), tensor("wpe.weight", [64, 48]), ...repeated(2, "h", { "attn.c_attn.weight": [48, 144], "attn.bias": [1, 1, 64, 64], "ln_1.weight": [48], "ln_1.bias": [48], "mlp.c_fc.weight": [48, 192] })];
  const { parameters, layers, width, heads } = told(gpt, { file: config({ n_embd: 48, n_layer: 2, n_head: 3 }) });
  assert.deepEqual([parameters, layers, width, heads], [`${((500 * 48 + 64 * 48 + 2 * (48 * 144 + 96 + 48 * 192)) / 1000).toFixed(1)} k parameters`, "2 layers", "48 wide", "3 heads"], "a causal mask is no parameter");

  const t5 = [tensor("shared.weight", [400, 32]), ...["encoder", "decoder"].flatMap((side, i) => repeated(2 + i, `${side}.block`, { "layer.0.SelfAttention.q.weight": [64, 32], "layer.0.SelfAttention.k.weight": [64, 32], "layer.0.SelfAttention.o.weight": [32, 64], "layer.0.layer_norm.weight": [32] })), ...["encoder", "decoder"].map((side) => tensor(`${side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight`, [32, 8]))];
  const both = told(t5);
  assert.deepEqual([both.layers, both.width, both.heads, both.vocabulary], ["2 + 3 layers (encoder, decoder)", "32 wide", "8 heads", "vocabulary 400"]);

  const gguf = [tensor("token_embd.weight", [256, 64], "F32", { format: "Q4_K" }), ...repeated(2, "blk", { "attn_q.weight": [64, 64], "attn_k.weight": [32, 64], "attn_output.weight": [64, 64], "attn_norm.weight": [64], "ffn_norm.weight": [64], "ffn_gate_exps.weight": [8, 96, 64] }), tensor("rope_freqs.weight", [8], "F32")];
  const metadata = { "general.architecture": "qwen3moe", "qwen3moe.block_count": "2", "qwen3moe.embedding_length": "64", "qwen3moe.attention.head_count": "4", "qwen3moe.attention.head_count_kv": "2", "qwen3moe.expert_used_count": "2" };
  const quantised = told(gguf, { metadata, name: "model.gguf" });
  assert.deepEqual([quantised.kind, quantised.layers, quantised.width, quantised.heads, quantised.experts, quantised.vocabulary], ["qwen3moe", "2 layers", "64 wide", "4 heads, 2 for keys and values", "8 experts, 2 active", "vocabulary 256"]);
  assert.deepEqual(quantised.types, ["BF16", "Q4_K", "F32"]);
});

test("experts are counted per layer, in names or in a dimension, and checked with the router", () => {
  const named = (experts, router) => [...repeated(2, "model.layers", { "input_layernorm.weight": [16], "mlp.gate.weight": [router, 16], "mlp.shared_experts.up_proj.weight": [24, 16] }), ...[0, 1].flatMap((layer) => repeated(experts, `model.layers.${layer}.mlp.experts`, { "up_proj.weight": [24, 16], "down_proj.weight": [16, 24] })), ...all({ "model.layers.2.input_layernorm.weight": [16], "model.layers.2.mlp.up_proj.weight": [96, 16] })];
  assert.deepEqual([told(named(6, 6)).experts, told(named(6, 6)).layers, told(named(6, 6)).width], ["6 experts", "3 layers", "16 wide"]);
  assert.equal(told(named(6, 8)).experts, undefined, "two experts are in another file");
  const fused = repeated(2, "model.layers", { "input_layernorm.weight": [16], "mlp.router.weight": [5, 16], "mlp.experts.gate_up_proj": [5, 16, 48], "mlp.experts.down_proj": [5, 24, 16] });
  assert.equal(told(fused).experts, "5 experts");
  const predicting = [...repeated(4, "model.layers", { "input_layernorm.weight": [16], "mlp.up_proj.weight": [96, 16] }), tensor("model.layers.3.eh_proj.weight", [16, 32])];
  assert.equal(told(predicting).layers, "3 layers, 1 more for further tokens");
});

test("what shapes do not prove is absent: U-Nets, hierarchies, odd normalisations, shards, adapters", () => {
  const unet = [64, 128, 256].flatMap((width, i) => all({ [`down_blocks.${i}.resnets.0.conv1.weight`]: [width, width, 3, 3], [`down_blocks.${i}.resnets.0.norm1.weight`]: [width] }));
  const swin = [32, 64, 128, 256].flatMap((width, i) => all({ [`layers.${i}.blocks.0.attn.qkv.weight`]: [3 * width, width], [`layers.${i}.blocks.0.norm1.weight`]: [width] }));
  for (const tensors of [unet, swin]) {
    const { parameters, layers, width, vocabulary, types } = told(tensors);
    assert.match(parameters, /parameters/);
    assert.deepEqual([layers, width, vocabulary, types], [undefined, undefined, undefined, ["BF16"]]);
  }
  // The bias of a projection within a normalisation is not as long as the layer is wide.
  const flux = ["transformer_blocks", "single_transformer_blocks"].flatMap((stack, i) => repeated(2 + i, stack, { "norm1.linear.weight": [192, 32], "norm1.linear.bias": [192], "attn.to_q.weight": [32, 32], "attn.norm_q.weight": [8] }));
  assert.deepEqual([told(flux).layers, told(flux).width], ["2 + 3 layers (transformer_blocks, single_transformer_blocks)", undefined]);
  const mamba = [tensor("backbone.embeddings.weight", [200, 24]), ...repeated(2, "backbone.layers", { "norm.weight": [24], "mixer.norm.weight": [48], "mixer.in_proj.weight": [100, 24] })];
  assert.equal(told(mamba).width, "24 wide");

  const shard = told(llama(2), { name: "model-00001-of-00002.safetensors", file: config({ hidden_size: 64, num_hidden_layers: 4, num_attention_heads: 8 }) });
  assert.deepEqual([shard.shard, shard.layers, shard.heads], ["file 1 of 2", "2 layers", "8 heads, 2 for keys and values"]);

  const adapter = repeated(3, "base_model.model.model.layers", { "self_attn.q_proj.lora_A.weight": [16, 64], "self_attn.q_proj.lora_B.weight": [64, 16] });
  const lora = told(adapter);
  assert.deepEqual([lora.kind, lora.layers, lora.width, lora.vocabulary, lora.needsConfig], ["LoRA adapter of rank 16 for 3 modules", "in 3 layers", undefined, undefined, false]);
  const ranks = told([...adapter, ...all({ "lora_unet_mid.lora_down.weight": [4, 64, 1, 1], "lora_unet_mid.lora_up.weight": [64, 4, 1, 1], "lora_unet_mid.alpha": [] })]);
  assert.equal(ranks.kind, "LoRA adapter of rank 4 to 16 for 4 modules");
});

test("packed weights count as the values that they represent, or not at all", () => {
  const counted = (shapes, quantisation) => countParameters(Object.entries(shapes).map(([name, [dtype, ...shape]]) => tensor(name, shape, dtype)), quantisation);
  const gptq = { "a.qweight": ["I32", 16, 96], "a.qzeros": ["I32", 2, 12], "a.scales": ["F16", 2, 96], "a.g_idx": ["I32", 128] };
  assert.deepEqual([counted(gptq).count, counted(gptq).figures], [128 * 96, 3]);
  assert.equal(counted({ "a.qweight": ["I32", 128, 12], "a.qzeros": ["I32", 2, 12], "a.scales": ["F16", 2, 96] }).count, 128 * 96, "AWQ");
  assert.equal(counted({ "a.weight": ["U8", 6144, 1], "a.weight.absmax": ["F32", 192], "a.weight.quant_map": ["F32", 16], "a.weight.quant_state.bitsandbytes__nf4": ["U8", 90] }).count, 128 * 96);
  assert.equal(counted({ "a.weight": ["I8", 96, 128], "a.SCB": ["F32", 96], "a.weight_format": ["U8"] }).count, 128 * 96);
  assert.equal(counted({ "e.gate_blocks": ["U8", 4, 10, 3, 16], "e.gate_scales": ["U8", 4, 10, 3], "e.gate_bias": ["BF16", 4, 10] }).count, 4 * 10 * 96 + 40);
  assert.equal(counted({ "a.weight": ["U8", 96, 64], "a.weight_scale": ["F8_E4M3", 96, 8], "a.weight_scale_2": ["F32"], "a.input_scale": ["F32"] }).count, 96 * 128);
  assert.equal(counted({ "a.weight": ["F8_E4M3", 96, 128], "a.weight_scale_inv": ["F32", 1, 1] }).count, 96 * 128);
  const mlx = { "a.weight": ["U32", 96, 16], "a.scales": ["BF16", 96, 2], "a.biases": ["BF16", 96, 2] };
  assert.equal(counted(mlx, { bits: 4, groupSize: 64 }).count, 96 * 128);
  for (const [what, unknown] of [["MLX without a configuration", counted(mlx)], ["with another", counted(mlx, { bits: 8, groupSize: 64 })], ["GPTQ without zero points", counted({ "a.qweight": ["I32", 16, 96], "a.scales": ["F16", 2, 96] })]]) {
    assert.deepEqual([unknown.count, unknown.unknown.length], [undefined, 1], what);
  }
  assert.equal(told([tensor("a.qweight", [4, 4], "I32"), tensor("a.scales", [4, 4])]).parameters, undefined);
  const norms = countParameters([tensor("a.norm", [64]), tensor("b.norm", [64], "BF16", { aliasOf: "a.norm" }), tensor("a.lora_B", [64, 8]), tensor("b.lora_B", [64, 8], "BF16", { aliasOf: "a.lora_B", storedLength: 20 })]);
  assert.deepEqual([norms.count, norms.shared], [2 * 64 + 2 * 64 * 8, 0], "equal constants are not tied");
  const view = { parts: [{ file: 0, offset: 8, length: 32 }], storedLength: 32 };
  const views = countParameters([tensor("a", [4, 4], "BF16", view), tensor("b", [16], "BF16", view), tensor("c", [4, 4], "BF16", { parts: [{ file: 0, offset: 40, length: 32 }], storedLength: 32 })]);
  assert.deepEqual([views.count, views.shared], [32, 1]);
});

const stats = (count, more = {}) => ({ count, min: -0.1, max: 0.1, mean: 0, rms: 0.03, zeros: 0, nans: 0, infinities: 0, rowsPerBand: 256, bands: undefined, ...more });

test("the checks find what was planted, and nothing in a healthy model", () => {
  const tensors = [...repeated(6, "layers", { "q.weight": [64, 64], "q.bias": [64] }), tensor("embed.weight", [64, 64]), tensor("ids", [64], "I64")];
  const healthy = new Map(tensors.filter(({ dtype }) => dtype !== "I64").map((one) => [one.name, stats(one.shape.reduce((a, b) => a * b, 1))]));
  const found = (changes) => checkup(tensors, new Map([...healthy, ...Object.entries(changes).map(([name, more]) => [name, { ...healthy.get(name), ...more }])])).findings.map(({ problem, tensor, text }) => [problem, tensor.name, text]);
  const none = checkup(tensors, healthy);
  assert.deepEqual([none.findings, none.checked, none.floats, none.compared], [[], 13, 13, 6]);
  assert.deepEqual(found({ "layers.2.q.weight": { nans: 64, infinities: 1 }, "layers.0.q.bias": { nans: 64 } }), [["nan", "layers.0.q.bias", "every value is NaN"], ["nan", "layers.2.q.weight", "64 NaN"], ["infinite", "layers.2.q.weight", "1 infinite"]]);
  assert.deepEqual(found({ "layers.4.q.weight": { zeros: 4096, min: 0, max: 0, rms: 0 } }), [["zero", "layers.4.q.weight", "all 4,096 values are zero"]], "and nothing else about it");
  assert.deepEqual(found({ "layers.1.q.weight": { max: 3 }, "embed.weight": { min: -2 } }), [["outlier", "layers.1.q.weight", "a magnitude of 3, 100 times the RMS"]]);
  assert.deepEqual(found({ "embed.weight": { min: -3 } }).map(([problem]) => problem), ["outlier"]);
  const usual = Object.fromEntries(Array.from({ length: 6 }, (_, i) => [`layers.${i}.q.weight`, { max: 3 }]));
  assert.deepEqual(found(usual), [], "large values in every layer are usual there");
  assert.deepEqual(found({ "layers.5.q.weight": { rms: 0.061 }, "layers.3.q.weight": { rms: 0.0149 }, "layers.0.q.weight": { rms: 0.059 }, "layers.1.q.bias": { rms: 9 } }).map(([problem, name]) => [problem, name]), [["unlike", "layers.3.q.weight"], ["unlike", "layers.5.q.weight"]]);
  assert.deepEqual(found({ "layers.1.q.weight": { zeros: 130 } }), [["dead", "layers.1.q.weight", "3.17 % zeros, enough for 2 rows"]]);
  assert.deepEqual(found({ "layers.1.q.weight": { zeros: 63 }, "layers.2.q.weight": { zeros: 2048 } }), [], "less than a row, and a sparse matrix");
  assert.deepEqual(found({ "layers.1.q.weight": { zeros: 2048, zeroRows: 0 }, "layers.2.q.weight": { zeros: 65, zeroRows: 1 } }), [["dead", "layers.2.q.weight", "1 row of zeros"]], "values that were read decide");
  const partly = checkup(tensors, new Map([...healthy].slice(0, 5)));
  assert.deepEqual([partly.checked, partly.floats], [5, 13]);
});

test("a row is named only if its band has no other", () => {
  const band = (more) => stats(256 * 8, more);
  const figures = (bands, bandRows = 256) => ({ whole: stats(1, { max: 5 }), bandRows, bands });
  assert.equal(rangesText(placesOf("nan", figures([band(), band({ nans: 8 }), band({ nans: 1 }), band(), stats(8, { nans: 1 })]), 1025, 8)), "rows 256–767, 1,024");
  assert.equal(rangesText(placesOf("nan", figures([band(), stats(8, { nans: 2 })]), 257, 8)), "row 256");
  assert.equal(rangesText(placesOf("outlier", figures([band(), band({ max: 5 })]), 512, 8)), "rows 256–511");
  assert.equal(rangesText(placesOf("dead", figures([band({ zeros: 7 }), band({ zeros: 8 })]), 512, 8)), "rows 256–511");
  assert.equal(placesOf("nan", figures([band({ nans: 1 }), band({ nans: 1 })]), 512, 8), undefined, "all rows are no place");
  assert.equal(placesOf("nan", { ...figures([band({ nans: 1 })]), bandRows: undefined }, 512, 8), undefined);
  assert.equal(placesOf("nan", undefined, 512, 8), undefined);
});

test("equal layers are arranged equally, whatever they compress to; areas are proportional to sizes", () => {
  const tensors = [tensor("wte.weight", [512, 64]), ...repeated(12, "h", { "attn.q.weight": [64, 64], "attn.o.weight": [64, 64], "mlp.up.weight": [256, 64], "mlp.down.weight": [64, 256], "ln.weight": [64] }), tensor("ln_f.weight", [64])].map((one, i) => ({ ...one, storedLength: Math.round(one.byteLength * (0.6 + ((i * 7) % 5) / 20)) }));
  const root = treeOf(tensors);
  const room = { x: 0, y: 0, width: 900, height: 420 };
  const sizeOf = (node) => (node.kind === "tensor" ? node.tensor.storedLength : node.storedBytes);
  const { cells, frames } = new TreemapLayout(root, room, new Structures(root), sizeOf);
  const order = (layer) => {
    const own = cells.filter(({ tensor: { name } }) => name.startsWith(`h.${layer}.`));
    const corner = { x: Math.min(...own.map(({ x }) => x)), y: Math.min(...own.map(({ y }) => y)) };
    // Two tensors are arranged equally if one is above, or left of, the other in every layer.
    return own.map((a) => own.map((b) => `${Math.sign(Math.round(a.x - b.x))}${Math.sign(Math.round(a.y - b.y))}`).join(" ") + (a.x === corner.x && a.y === corner.y ? " first" : "")).join("|");
  };
  assert.equal(new Set(Array.from({ length: 12 }, (_, layer) => order(layer))).size, 1);
  assert.equal(cells.length, tensors.length);
  assert.ok(frames.some(({ label }) => label === "h"));
  for (const { x, y, width, height } of cells) assert.ok(x >= 0 && y >= 0 && x + width <= 900.01 && y + height <= 420.01);
  const flat = treeOf(Array.from({ length: 10 }, (_, i) => tensor(`t${i}`, [i + 1, 8])));
  const plain = new TreemapLayout(flat, room, new Structures(flat), sizeOf).cells;
  for (const { width, height, tensor: { storedLength } } of plain) assert.ok(Math.abs((width * height) / (900 * 420) - storedLength / flat.storedBytes) < 1e-9);
});
