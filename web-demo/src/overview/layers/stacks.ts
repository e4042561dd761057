/** Stacks of layers: tensors arranged by the layer number in their names and the rest of their names. */

import type { TensorInfo } from "zstn";

/** The tensors of one module type in one layer: one tensor, or one for each of several experts. */
export type Cell = readonly TensorInfo[];

/** A module type: the part of the name after the layer number, with the numbers of experts replaced by `*`. */
export interface Column {
  readonly kind: string;
  /** True if all its tensors are vectors or scalars, which are shown on request only. */
  readonly isNarrow: boolean;
}

/** Layers with the same prefix, such as `model.layers`. */
export interface Stack {
  /** The part of the name before the layer number, without the dot. */
  readonly prefix: string;
  readonly columns: readonly Column[];
  /** The number of module types that have no column because there are too many. */
  readonly moreKinds: number;
  readonly rows: readonly { readonly layer: number; readonly cells: readonly (Cell | undefined)[] }[];
}

export interface Stacks {
  readonly stacks: readonly Stack[];
  /** The tensors that belong to no stack, in file order. */
  readonly outside: readonly TensorInfo[];
}

/** The minimum number of layers in a stack. */
const MIN_LAYERS = 2;
/** The maximum number of readable columns. The list shows the rest. */
const MAX_COLUMNS = 64;

/** The stacks of the lists of tensors that were arranged before, since several views of a model use them. */
const arranged = new WeakMap<readonly TensorInfo[], Stacks>();

/** Arranges tensors in stacks. The first number in a name is the layer number. */
export function stacksOf(tensors: readonly TensorInfo[]): Stacks {
  const known = arranged.get(tensors);
  if (known) return known;
  const byPrefix = new Map<string, Map<number, Map<string, TensorInfo[]>>>();
  for (const tensor of tensors) {
    const place = placeOf(tensor.name);
    if (!place) continue;
    const layers = getOrMake(byPrefix, place.prefix, () => new Map<number, Map<string, TensorInfo[]>>());
    const kinds = getOrMake(layers, place.layer, () => new Map<string, TensorInfo[]>());
    getOrMake(kinds, place.kind, () => []).push(tensor);
  }
  const stacks = [...byPrefix].filter(([, layers]) => layers.size >= MIN_LAYERS).map(([prefix, layers]) => stackOf(prefix, layers));
  const prefixes = new Set(stacks.map(({ prefix }) => prefix));
  const result = { stacks, outside: tensors.filter(({ name }) => !prefixes.has(placeOf(name)?.prefix ?? "\0")) };
  arranged.set(tensors, result);
  return result;
}

function stackOf(prefix: string, layers: ReadonlyMap<number, ReadonlyMap<string, TensorInfo[]>>): Stack {
  const kinds = new Map<string, boolean>();
  const sorted = [...layers].sort(([a], [b]) => a - b);
  // The columns are in the order of the layer with the most module types, so that types that only some layers have do
  // not come first.
  const fullest = sorted.reduce((best, layer) => (layer[1].size > best[1].size ? layer : best));
  for (const [, cells] of [fullest, ...sorted]) {
    for (const [kind, tensors] of cells) kinds.set(kind, (kinds.get(kind) ?? true) && tensors.every(({ shape }) => shape.length < 2));
  }
  const all = [...kinds].map(([kind, isNarrow]) => ({ kind, isNarrow }));
  // Matrices get columns before vectors do.
  const kept = new Set([...all].sort((a, b) => Number(a.isNarrow) - Number(b.isNarrow)).slice(0, MAX_COLUMNS));
  const columns = all.filter((column) => kept.has(column));
  return { prefix, columns, moreKinds: all.length - columns.length, rows: sorted.map(([layer, cells]) => ({ layer, cells: columns.map(({ kind }) => cells.get(kind)) })) };
}

/** Splits a name at its first number: "h.3.attn.c_proj.weight" is layer 3 of "h", with the module type "attn.c_proj". */
export function placeOf(name: string): { prefix: string; layer: number; kind: string } | undefined {
  const [, prefix, layer, rest] = /^(?:(.*?)\.)?(\d{1,6})\.(.+)$/.exec(name) ?? [];
  if (layer === undefined || rest === undefined) return undefined;
  const kind = rest.replace(/(^|\.)(\w*experts?)\.\d+(?=\.|$)/g, "$1$2.*").replace(/\.weight$/, "");
  return { prefix: prefix ?? "", layer: Number(layer), kind };
}

function getOrMake<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  let value = map.get(key);
  if (value === undefined) map.set(key, (value = make()));
  return value;
}
