/** Stacks of layers: tensors arranged by the number and the rest of their names. */

import type { TensorInfo } from "zstn";

/** Tensors of one kind in one layer: one, or those of several experts. */
export type Cell = readonly TensorInfo[];

/** A kind of module: the part of the name after the layer's number, with those of experts as `*`. */
export interface Column {
  readonly kind: string;
  /** Whether all its tensors are vectors or scalars, which are shown on request. */
  readonly isNarrow: boolean;
}

/** Layers with one prefix, such as `model.layers`. */
export interface Stack {
  /** The part of the name before the number, without its dot. */
  readonly prefix: string;
  readonly columns: readonly Column[];
  /** The number of kinds that have no column, since there are too many. */
  readonly moreKinds: number;
  readonly rows: readonly { readonly layer: number; readonly cells: readonly (Cell | undefined)[] }[];
}

export interface Stacks {
  readonly stacks: readonly Stack[];
  /** Tensors that belong to no stack, in the order of the file. */
  readonly outside: readonly TensorInfo[];
}

/** The fewest layers that make a stack. */
const MIN_LAYERS = 2;
/** More columns than these are not readable; the rest is left to the list. */
const MAX_COLUMNS = 64;

/** Arranges tensors in stacks. The first number in a name is that of its layer. */
export function stacksOf(tensors: readonly TensorInfo[]): Stacks {
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
  return { stacks, outside: tensors.filter(({ name }) => !prefixes.has(placeOf(name)?.prefix ?? "\0")) };
}

function stackOf(prefix: string, layers: ReadonlyMap<number, ReadonlyMap<string, TensorInfo[]>>): Stack {
  const kinds = new Map<string, boolean>();
  const sorted = [...layers].sort(([a], [b]) => a - b);
  // In the order of the longest layer, so that kinds that only some layers have do not come first.
  const fullest = sorted.reduce((best, layer) => (layer[1].size > best[1].size ? layer : best));
  for (const [, cells] of [fullest, ...sorted]) {
    for (const [kind, tensors] of cells) kinds.set(kind, (kinds.get(kind) ?? true) && tensors.every(({ shape }) => shape.length < 2));
  }
  const all = [...kinds].map(([kind, isNarrow]) => ({ kind, isNarrow }));
  // Matrices have the first claim to a column.
  const kept = new Set([...all].sort((a, b) => Number(a.isNarrow) - Number(b.isNarrow)).slice(0, MAX_COLUMNS));
  const columns = all.filter((column) => kept.has(column));
  return { prefix, columns, moreKinds: all.length - columns.length, rows: sorted.map(([layer, cells]) => ({ layer, cells: columns.map(({ kind }) => cells.get(kind)) })) };
}

/** Splits a name at its first number: "h.3.attn.c_proj.weight" is layer 3 of "h", of the kind "attn.c_proj". */
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
