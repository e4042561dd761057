/** Stacks of layers: tensors arranged by the layer number in their names and the rest of their names. */

import type { TensorInfo } from "zstn";
import { atOnce } from "../../engine/turns.js";
import type { Steps } from "../../engine/turns.js";

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

/** A stack as a picture shows it. `moreRows` is the number of layers that it leaves out. */
export interface PictureStack extends Omit<Stack, "rows"> {
  readonly rows: readonly { readonly layer: number; readonly cells: readonly (PictureCell | undefined)[] }[];
  readonly moreRows: number;
}

/** A cell of a picture. Its tensors may be looked up when they are first needed. */
export interface PictureCell {
  readonly tensors: Cell;
}

/** The part of the stacks of a model that a picture shows, and the numbers of stacks and other tensors that it leaves out. */
export interface BoundedStacks {
  readonly stacks: readonly PictureStack[];
  readonly moreStacks: number;
  /** Tensors that belong to no stack. */
  readonly outside: readonly TensorInfo[];
  readonly moreOutside: number;
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
/** The maximum number of cells of a picture, and of tensors that it shows outside the layers. */
const MAX_CELLS = 3000;
const MAX_OUTSIDE = 24;

/** The stacks of the lists of tensors that were arranged before, since several views of a model use them. */
const arranged = new WeakMap<readonly TensorInfo[], Stacks>();

/** Arranges tensors in stacks. The first number in a name is the layer number. */
export const stacksOf = (tensors: readonly TensorInfo[]): Stacks => atOnce(stacksInSteps(tensors));

/** Arranges tensors in stacks, one in each step. */
export function* stacksInSteps(tensors: readonly TensorInfo[]): Steps<Stacks> {
  const known = arranged.get(tensors);
  if (known) return known;
  const byPrefix = new Map<string, Map<number, Map<string, TensorInfo[]>>>();
  for (const tensor of tensors) {
    yield;
    const place = placeOf(tensor);
    if (!place) continue;
    const layers = getOrMake(byPrefix, place.prefix, () => new Map<number, Map<string, TensorInfo[]>>());
    const kinds = getOrMake(layers, place.layer, () => new Map<string, TensorInfo[]>());
    getOrMake(kinds, place.kind, () => []).push(tensor);
  }
  const stacks = [...byPrefix].filter(([, layers]) => layers.size >= MIN_LAYERS).map(([prefix, layers]) => stackOf(prefix, layers));
  const prefixes = new Set(stacks.map(({ prefix }) => prefix));
  const result = { stacks, outside: tensors.filter((tensor) => !prefixes.has(placeOf(tensor)?.prefix ?? "\0")) };
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

/** Returns the part of the stacks that a picture shows: the first layers, and the largest of the other tensors in file order. */
export function boundedStacks({ stacks, outside }: Stacks): BoundedStacks {
  let left = MAX_CELLS;
  const shown = stacks.flatMap((stack) => {
    const rows = stack.rows.slice(0, Math.floor(left / stack.columns.length)).map(({ layer, cells }) => ({ layer, cells: cells.map((tensors) => tensors && { tensors }) }));
    left -= rows.length * stack.columns.length;
    return rows.length === 0 ? [] : [{ ...stack, rows, moreRows: stack.rows.length - rows.length }];
  });
  const largest = new Set([...outside].sort((a, b) => b.byteLength - a.byteLength).slice(0, MAX_OUTSIDE));
  return { stacks: shown, moreStacks: stacks.length - shown.length, outside: outside.filter((tensor) => largest.has(tensor)), moreOutside: outside.length - largest.size };
}

/** The place of a tensor: the layer, the part of the name before it, and the module type. */
export interface Place {
  readonly prefix: string;
  readonly layer: number;
  readonly kind: string;
}

/** The places of tensors that were computed before; `null` for a tensor without one. */
const places = new WeakMap<TensorInfo, Place | null>();

/** Returns the place of a tensor; `undefined` if its name contains no number. */
export function placeOf(tensor: TensorInfo): Place | undefined {
  let place = places.get(tensor);
  if (place === undefined) places.set(tensor, (place = split(tensor.name)));
  return place ?? undefined;
}

/** Splits a name at its first number: "h.3.attn.c_proj.weight" is layer 3 of "h", with the module type "attn.c_proj". */
function split(name: string): Place | null {
  const [, prefix, layer, rest] = /^(?:(.*?)\.)?(\d{1,6})\.(.+)$/.exec(name) ?? [];
  if (layer === undefined || rest === undefined) return null;
  const kind = rest.replace(/(^|\.)(\w*experts?)\.\d+(?=\.|$)/g, "$1$2.*").replace(/\.weight$/, "");
  return { prefix: prefix ?? "", layer: Number(layer), kind };
}

function getOrMake<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  let value = map.get(key);
  if (value === undefined) map.set(key, (value = make()));
  return value;
}
