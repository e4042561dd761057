/** What names and shapes prove about a model: its layers, their width, the vocabulary, the experts and the heads. */

import type { TensorInfo } from "zstn";
import type { Cell, Stack } from "../layers/stacks.js";

/** The last component of a prefix whose numbered modules are the layers of a network. */
const LAYERS = new Set(["layers", "layer", "h", "blk", "block", "blocks", "resblocks", "transformer_blocks", "single_transformer_blocks", "double_blocks", "single_blocks", "joint_blocks", "joint_transformer_blocks", "encoder_layers", "decoder_layers"]);

/** A stack of equal layers. */
export interface Layers {
  readonly stack: Stack;
  readonly count: number;
  /** The number of further layers that predict more tokens than the next one, which are not part of the network itself. */
  readonly predictors: number;
  /** True if the layers are numbered without a gap, from 0 or 1. */
  readonly isWhole: boolean;
  readonly width: number | undefined;
}

/** Returns the stacks whose layers have the name of layers and matrices of equal shapes. The blocks of a U-Net have neither. */
export function layersIn(stacks: readonly Stack[], embeddingWidth: number | undefined): Layers[] {
  return stacks.filter((stack) => LAYERS.has(lastPart(stack.prefix)) && isUniform(stack)).map((stack) => {
    const numbers = stack.rows.map(({ layer }) => layer);
    const predicts = stack.columns.map(({ kind }) => /(^|\.)eh_proj$/.test(kind));
    const predictors = stack.rows.filter(({ cells }) => cells.some((cell, i) => cell && predicts[i])).length;
    const [first, last] = [numbers[0]!, numbers.at(-1)!];
    return { stack, count: numbers.length - predictors, predictors, isWhole: first <= 1 && last - first + 1 === numbers.length, width: widthOf(stack, embeddingWidth) };
  });
}

const lastPart = (name: string): string => name.slice(name.lastIndexOf(".") + 1);

/** Returns whether a matrix has the same shape in most layers. */
function isUniform({ columns, rows }: Stack): boolean {
  return columns.some(({ isNarrow }, i) => {
    if (isNarrow) return false;
    const shapes = new Map<string, number>();
    for (const { cells } of rows) {
      const shape = cells[i]?.[0]?.shape.join();
      if (shape !== undefined) shapes.set(shape, (shapes.get(shape) ?? 0) + 1);
    }
    return [...shapes.values()].some((count) => 2 * count > rows.length);
  });
}

/** Matches the last component of the name of a normalisation over the width of a layer. */
const NORM = /norm|^ln(_|\d|$)|_ln$/i;
/** Matches names of normalisations over heads or other inner widths. */
const INNER_NORM = /(^|[._])((q|k|query|key)_?(layer)?_?norm|norm_(added_)?[qk]|q_a|kv_a|attn_(q|k)|ssm)/i;

/**
 * Returns the width of the layers: the common length of their normalisation weights, which is also a dimension of a
 * matrix. If these have several lengths, it is the one that the embedding also has.
 */
function widthOf({ columns, rows }: Stack, embeddingWidth: number | undefined): number | undefined {
  const lengths = new Set<number>();
  columns.forEach(({ kind, isNarrow }, i) => {
    const module = kind.replace(/\.(weight|bias|scale|gamma|beta)$/, "");
    if (!isNarrow || !NORM.test(lastPart(module)) || INNER_NORM.test(module)) return;
    for (const { cells } of rows) for (const { shape } of cells[i] ?? []) if (shape.length === 1) lengths.add(shape[0]!);
  });
  const isDimension = (width: number): boolean => columns.some(({ isNarrow }, i) => !isNarrow && rows.some(({ cells }) => cells[i]?.some(({ shape }) => shape.includes(width))));
  const width = lengths.size === 1 ? [...lengths][0] : lengths.has(embeddingWidth ?? -1) ? embeddingWidth : undefined;
  return width !== undefined && isDimension(width) ? width : undefined;
}

const EMBEDDING = /(^|\.)(embed_tokens|word_embeddings?|wte|tok_embeddings|tok_emb|token_embd|token_embeddings?|embed_in|backbone\.embeddings?|rwkv\.embeddings)(\.weight)?$|^(shared|emb)\.weight$/;

/** Returns the token embedding: its shape is vocabulary × width. `undefined` if embeddings differ in their vocabulary. */
export function embeddingOf(tensors: readonly TensorInfo[]): TensorInfo | undefined {
  const found = tensors.filter(({ name, shape }) => shape.length === 2 && EMBEDDING.test(name));
  return found.every(({ shape }) => shape[0] === found[0]!.shape[0]) ? found[0] : undefined;
}

/** Returns the number of experts in each layer that has any; `undefined` if there are none, or if layers differ. */
export function expertsIn({ columns, rows }: Stack): number | undefined {
  const counts = new Set<number>();
  const routers = new Set<number>();
  columns.forEach(({ kind }, i) => {
    for (const { cells } of rows) {
      const cell = cells[i];
      if (!cell || /shared/.test(kind)) continue;
      if (/(^|[._])experts?\.\*(\.|$)/.test(kind)) counts.add(cell.length);
      else if (isFused(kind, cell)) counts.add(cell[0]!.shape[0]!);
      else if (/(^|\.)(gate|router|ffn_gate_inp)$/.test(kind) && cell[0]!.shape.length === 2) routers.add(cell[0]!.shape[0]!);
    }
  });
  const [count] = counts;
  // A router has a row for each expert, so that missing experts are noticed.
  return counts.size === 1 && [...routers].every((rows) => rows === count) ? count : undefined;
}

/** Returns whether a tensor contains the matrices of all experts of a layer. */
function isFused(kind: string, cell: Cell): boolean {
  return cell.length === 1 && cell[0]!.shape.length >= 3 && /(^|[._])experts\.\w+$|_exps$|(^|\.)(switch_mlp|block_sparse_moe)\.\w+$/.test(kind);
}

/** The heads of a layer: of queries, and of keys and values. */
export interface Heads {
  readonly heads: number;
  readonly keyValueHeads: number | undefined;
  /** The name of the tensor that proves the number. */
  readonly proof: string;
}

const QUERY = /(^|[._])(q_proj|attn_q|query|wq|to_q|q)$/;
const KEY = /(^|[._])(k_proj|attn_k|key|wk|to_k|k)$/;
const OUTPUT = /(^|[._])(o_proj|attn_output|wo|out_proj|to_out\.0|o)$/;

/** The lengths of the projections of queries, keys and the output in a layer; `undefined` for those it does not have. */
export function projections(stack: Stack): { readonly inner: number | undefined; readonly keys: number | undefined } {
  const shape = (pattern: RegExp): readonly number[] | undefined => firstOf(stack, pattern, 2)?.shape;
  const [query, output] = [shape(QUERY), shape(OUTPUT)];
  // The output projection maps all heads to the width. Queries may have more rows, for a gate.
  const inner = output?.[1] ?? query?.[0];
  return { inner: query && inner !== undefined && query[0]! % inner === 0 ? inner : undefined, keys: shape(KEY)?.[0] };
}

/** Returns the number of heads that shapes prove: by a normalisation of each head, or by a value for each head. */
export function headsIn(stack: Stack): Heads | undefined {
  const { inner, keys } = projections(stack);
  const perHead = firstOf(stack, /(^|[._])(sinks|attn_sinks)(\.weight)?$/, 1);
  const byBias = firstOf(stack, /(^|\.)relative_attention_bias$/, 2);
  const [queryNorm, keyNorm] = [firstOf(stack, /(^|[._])(q|query)_(layer)?norm$/, 1), firstOf(stack, /(^|[._])(k|key)_(layer)?norm$/, 1)];
  const proof = perHead ?? byBias ?? queryNorm;
  if (!proof) return undefined;
  const size = proof.shape.at(-1)!;
  let heads: number | undefined;
  if (proof !== queryNorm) heads = inner === undefined || inner % size === 0 ? size : undefined;
  // A normalisation over all heads together is as long as the projection, and does not show their number.
  else if (inner !== undefined && keys !== undefined && keyNorm?.shape[0] === size && size < inner && inner % size === 0) heads = inner / size;
  if (heads === undefined || !(heads > 0)) return undefined;
  return { heads, keyValueHeads: keyValueHeads(heads, inner, keys), proof: proof.name };
}

/** Returns the number of heads of keys and values, which are as wide as the heads of queries; `undefined` if that is not possible. */
export function keyValueHeads(heads: number, inner: number | undefined, keys: number | undefined): number | undefined {
  if (inner === undefined || keys === undefined || inner % heads !== 0) return undefined;
  const found = keys / (inner / heads);
  return Number.isInteger(found) && found > 0 && heads % found === 0 ? found : undefined;
}

/** Returns the first tensor of the stack with a matching module and this number of dimensions. */
function firstOf({ columns, rows }: Stack, pattern: RegExp, dimensions: number): TensorInfo | undefined {
  for (const [i, { kind }] of columns.entries()) {
    if (!pattern.test(kind)) continue;
    for (const { cells } of rows) if (cells[i]?.[0]?.shape.length === dimensions) return cells[i]![0];
  }
  return undefined;
}

/** An adapter of low rank: its ranks, and the number of modules that it adapts. */
export interface Adapter {
  readonly leastRank: number;
  readonly mostRank: number;
  readonly modules: number;
}

const DOWN = /(^|[._])lora[._](A|down)([._]|$)/;
const ADAPTER = /(^|[._])(lora|dora|alpha)([._]|$)|magnitude_vector/;

/** Returns the adapter in these tensors; `undefined` unless most of them belong to one. */
export function adapterIn(tensors: readonly TensorInfo[]): Adapter | undefined {
  const ranks = tensors.flatMap(({ name, shape }) => (DOWN.test(name) && shape.length >= 2 ? [shape[0]!] : []));
  if (ranks.length === 0 || 2 * tensors.filter(({ name }) => ADAPTER.test(name)).length <= tensors.length) return undefined;
  return { leastRank: ranks.reduce((a, b) => Math.min(a, b)), mostRank: ranks.reduce((a, b) => Math.max(a, b)), modules: ranks.length };
}
