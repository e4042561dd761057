/** What is known about the changes of a model: what its files state, what was measured, and what that amounts to. */

import type { TensorInfo } from "zstn";
import { marginOf } from "../../engine/margin.js";
import type { ChangesResult, ChangeSums, StatedChange, TensorChange } from "../../engine/tensor-change.js";
import { isFloat } from "../../tree/dtype-family.js";
import { countValues } from "../picture/metric.js";

/** A figure of some tensors. `margin` is present if it is an estimate. */
export interface Figure {
  readonly value: number;
  readonly margin?: number;
}

/** Sums over some tensors. A sampled tensor counts by its size, as if the rest of it were like the sample. */
export interface ChangeSum {
  /** The share of values that differ; `undefined` if too little was read to say how far off it may be. */
  readonly changedShare: Figure | undefined;
  /** The norm of the difference, divided by that of the second model; also `undefined` where values are not float numbers. */
  readonly relative: Figure | undefined;
  /** Whether `relative` leaves out unchanged tensors, since their norms are not known. */
  readonly isOfChanged: boolean;
  /** Whether all values were compared, or are stated to be the same. */
  readonly isExact: boolean;
  readonly comparedShare: number;
}

/** Whether tensors are the same: proved, disproved, or not decided by what was read. */
export type Verdict = "same" | "changed" | "undecided";

export class MeasuredChanges {
  readonly #changes = new Map<string, TensorChange>();
  readonly #stated = new Map<string, StatedChange>();
  readonly #owners: ReadonlyMap<string, string>;
  #fetchedBytes = 0;

  /** `owners` names the tensor whose data a tied one has in both models. */
  constructor(owners: ReadonlyMap<string, string>) {
    this.#owners = owners;
  }

  add({ changes, fetchedBytes }: ChangesResult): void {
    for (const change of changes) this.#changes.set(change.name, change);
    this.#fetchedBytes += fetchedBytes;
  }

  /** Adds what the files state. */
  state(all: readonly StatedChange[]): void {
    for (const stated of all) this.#stated.set(stated.name, stated);
  }

  /** What was fetched for all of them, in bytes. */
  get fetchedBytes(): number {
    return this.#fetchedBytes;
  }

  of({ name }: TensorInfo): TensorChange | undefined {
    return this.#changes.get(this.#owners.get(name) ?? name);
  }

  /** Returns whether a tensor is proved to be the same, or to differ. Compared bytes count more than what a file states. */
  verdict(tensor: TensorInfo): Verdict {
    const change = this.of(tensor);
    if (change && change.changed > 0) return "changed";
    if (change?.exact) return "same";
    const isSame = this.#statedOf(tensor)?.isSame;
    return isSame === undefined ? "undecided" : isSame ? "same" : "changed";
  }

  /** Returns whether a tensor is the same by what the files state alone. */
  isOnlyStated(tensor: TensorInfo): boolean {
    return this.of(tensor)?.exact !== true && this.verdict(tensor) === "same";
  }

  /** Returns whether nothing is left to read of a tensor. */
  isSettled(tensor: TensorInfo): boolean {
    return this.of(tensor)?.exact === true || this.verdict(tensor) === "same";
  }

  /** Returns whether a tensor is settled, or a sample of it shows how much it changed. */
  has(tensor: TensorInfo): boolean {
    if (this.isSettled(tensor)) return true;
    const change = this.of(tensor);
    // A changed tensor whose sample shows nothing has changed elsewhere.
    return change !== undefined && change.compared > 0 && (change.changed > 0 || this.verdict(tensor) !== "changed");
  }

  /** Returns the numbers of NaN and infinite values in both models, if they differ in which values are finite: exact ones, or those that were seen. */
  finiteness(tensor: TensorInfo): { readonly text: string; readonly count: number } | undefined {
    const change = this.of(tensor);
    const stated = this.#statedOf(tensor)?.nonFinite;
    if (stated && stated[0] !== stated[1]) {
      const text = `${stated[0].toLocaleString("en-US")} NaN or ∞, ${stated[1].toLocaleString("en-US")} in the other model`;
      return { text, count: Math.abs(stated[0] - stated[1]) };
    }
    if (!change || change.gained + change.lost === 0) return undefined;
    const least = change.exact ? "" : "at least ";
    const parts = [change.gained > 0 && `${least}${change.gained.toLocaleString("en-US")} became NaN or ∞`, change.lost > 0 && `${least}${change.lost.toLocaleString("en-US")} became finite`];
    return { text: parts.filter((part) => part !== false).join(", "), count: change.gained + change.lost };
  }

  /** Returns whether a tensor has the data of another one in both models, so that it is not compared by itself. */
  isTied({ name }: TensorInfo): boolean {
    return this.#owners.has(name);
  }

  /**
   * Sums over those of `tensors` that were compared; `undefined` if none was. Integers and masks count only where there
   * are no floats: the squares of positions would hide any change of weights. Tied data counts once. With `others`, those
   * that were not compared count as unchanged, so that figures are lower bounds.
   */
  sum(tensors: readonly TensorInfo[], others = false): ChangeSum | undefined {
    const floats = tensors.filter(({ dtype }) => isFloat(dtype));
    const counted = this.#withoutTied(floats.length > 0 ? floats : tensors).filter((tensor) => others || this.has(tensor));
    if (counted.length === 0) return undefined;
    const parts = counted.map((tensor) => this.#part(tensor));
    const [values, compared] = [total(parts, ({ count }) => count), total(parts, ({ change, count }) => (change.exact ? count : change.compared))];
    const isExact = parts.every(({ change }) => change.exact);
    const comparedShare = values === 0 ? 1 : compared / values;
    const changedShare = figureOf(parts, ({ changed }) => changed, () => 0, () => values);
    const numeric = parts.filter(({ change }) => change.numeric && floats.length > 0);
    const isOfChanged = numeric.some(({ change }) => Number.isNaN(change.baseSquares)) && numeric.some(({ change }) => change.squares > 0);
    const normed = numeric.filter(({ change }) => !Number.isNaN(change.baseSquares));
    const nothing = isExact && parts.every(({ change }) => change.changed === 0);
    const squared = normed.length > 0 ? figureOf(normed, ({ squares }) => squares, ({ baseSquares }) => baseSquares, () => total(normed, ({ change, scale }) => change.baseSquares * scale)) : undefined;
    // A bound needs the norms of all tensors.
    const relative = nothing ? { value: 0 } : others && normed.length < numeric.length ? undefined : squared && rootOf(squared);
    return { changedShare, relative, isExact, isOfChanged, comparedShare };
  }

  #part(tensor: TensorInfo): Part {
    const count = countValues([tensor]) * (tensor.dtype === "C64" ? 2 : 1);
    const measured = this.of(tensor);
    const change = measured && this.has(tensor) && (measured.exact || measured.changed > 0 || this.verdict(tensor) !== "same") ? measured : sameChange(tensor, count, this.#statedOf(tensor)?.baseSquares);
    return { change, count, scale: change.exact ? 1 : count / Math.max(1, change.compared) };
  }

  #statedOf({ name }: TensorInfo): StatedChange | undefined {
    return this.#stated.get(name);
  }

  #withoutTied(tensors: readonly TensorInfo[]): readonly TensorInfo[] {
    if (tensors.length < 2 || this.#owners.size === 0) return tensors;
    const names = new Set(tensors.map(({ name }) => name));
    return tensors.filter(({ name }) => !names.has(this.#owners.get(name) ?? ""));
  }
}

/** A compared tensor: its sums, the number of its values, and how many of them each compared one stands for. */
interface Part {
  readonly change: TensorChange;
  readonly count: number;
  readonly scale: number;
}

/** Returns the change of a tensor that is stated to be the same. The norm is NaN if it is not known. */
function sameChange({ name }: TensorInfo, count: number, baseSquares: number | undefined): TensorChange {
  return { name, exact: true, compared: count, changed: 0, squares: 0, baseSquares: baseSquares ?? Number.NaN, gained: 0, lost: 0, numeric: true, groups: [], leftBytes: 0 };
}

const total = (parts: readonly Part[], of: (part: Part) => number): number => parts.reduce((sum, part) => sum + of(part), 0);

/**
 * Returns the ratio of the sums of two figures over all tensors, with its margin: of `over` and of `under`, or of a
 * constant where `under` is zero. `undefined` if a sampled tensor has too few groups of rows for a margin.
 */
function figureOf(parts: readonly Part[], over: (sums: ChangeSums) => number, under: (sums: ChangeSums) => number, wholeUnder: () => number): Figure | undefined {
  const base = wholeUnder();
  const value = base === 0 ? 0 : total(parts, ({ change, scale }) => over(change) * scale) / base;
  if (!Number.isFinite(value) && !(value === Number.POSITIVE_INFINITY)) return undefined;
  let variance = 0;
  for (const { change, count, scale } of parts) {
    if (change.exact) continue;
    // How far the sum of this tensor may be off, as a part of the ratio.
    const estimate = (groups: readonly ChangeSums[]): number => {
      const compared = groups.reduce((sum, group) => sum + group.compared, 0);
      return groups.reduce((sum, group) => sum + over(group) - value * under(group), 0) * (count / Math.max(1, compared));
    };
    const margin = marginOf(change.groups, 1 / scale, estimate);
    if (margin === undefined) return undefined;
    variance += (margin / base) ** 2;
  }
  return parts.every(({ change }) => change.exact) ? { value } : { value, margin: Math.sqrt(variance) };
}

/** Returns the root of a figure. Its margin is the larger of both sides. */
function rootOf({ value, margin }: Figure): Figure {
  const root = Math.sqrt(value);
  if (margin === undefined) return { value: root };
  return { value: root, margin: Math.max(Math.sqrt(value + margin) - root, root - Math.sqrt(Math.max(0, value - margin))) };
}
