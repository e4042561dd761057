/**
 * The changes of a model as far as they are known: the facts that the files record, the measured tensors, and the
 * figures that follow from both.
 */

import type { TensorInfo } from "zstn";
import { marginOf } from "../../engine/jackknife.js";
import type { ChangesResult, ChangeSums, StatedChange, TensorChange } from "../../engine/tensor-change.js";
import { atOnce } from "../../engine/turns.js";
import type { Steps } from "../../engine/turns.js";
import { isFloat } from "../../tree/dtype-family.js";
import { countValues } from "../picture/metric.js";

/** A figure over some tensors. `margin` is present if the figure is an estimate. */
export interface Figure {
  readonly value: number;
  readonly margin?: number;
}

/** The figures over some tensors. A sample is scaled to the size of its tensor. */
export interface ChangeSum {
  /** The fraction of values that differ; `undefined` if the samples are too small for a margin. */
  readonly changedShare: Figure | undefined;
  /** The norm of the difference divided by the norm of the second model; also `undefined` if the values are not floats. */
  readonly relative: Figure | undefined;
  /** True if `relative` leaves out unchanged tensors because their norms are unknown. */
  readonly isOfChanged: boolean;
  /** True if all values were compared, or are recorded as equal. */
  readonly isExact: boolean;
  readonly comparedShare: number;
}

/** The answer to whether two tensors are the same: proved, disproved, or not decided by the values read so far. */
export type Verdict = "same" | "changed" | "undecided";

export class MeasuredChanges {
  readonly #changes = new Map<string, TensorChange>();
  readonly #stated = new Map<string, StatedChange>();
  readonly #owners: ReadonlyMap<string, string>;
  #fetchedBytes = 0;

  /** `owners` maps each tied tensor to the tensor whose data it has in both models. */
  constructor(owners: ReadonlyMap<string, string>) {
    this.#owners = owners;
  }

  add({ changes, fetchedBytes }: ChangesResult): void {
    for (const change of changes) this.#changes.set(change.name, change);
    this.#fetchedBytes += fetchedBytes;
  }

  /** Adds the facts that the files record. */
  state(all: readonly StatedChange[]): void {
    for (const stated of all) this.#stated.set(stated.name, stated);
  }

  /** The number of bytes that were fetched for all comparisons. */
  get fetchedBytes(): number {
    return this.#fetchedBytes;
  }

  of({ name }: TensorInfo): TensorChange | undefined {
    return this.#changes.get(this.#owners.get(name) ?? name);
  }

  /** Returns whether a tensor is proved to be the same or to differ. Compared values take precedence over recorded facts. */
  verdict(tensor: TensorInfo): Verdict {
    const change = this.of(tensor);
    if (change && change.changed > 0) return "changed";
    if (change?.exact) return "same";
    const isSame = this.#statedOf(tensor)?.isSame;
    return isSame === undefined ? "undecided" : isSame ? "same" : "changed";
  }

  /** Returns whether only the recorded facts, and no comparison of all values, prove that a tensor is the same. */
  isOnlyStated(tensor: TensorInfo): boolean {
    return this.of(tensor)?.exact !== true && this.verdict(tensor) === "same";
  }

  /** Returns whether a tensor needs no further reads. */
  isSettled(tensor: TensorInfo): boolean {
    return this.of(tensor)?.exact === true || this.verdict(tensor) === "same";
  }

  /** Returns whether a tensor needs no further reads, or a sample of it shows how much it changed. */
  has(tensor: TensorInfo): boolean {
    if (this.isSettled(tensor)) return true;
    const change = this.of(tensor);
    // If the sample of a changed tensor shows no change, the change is elsewhere.
    return change !== undefined && change.compared > 0 && (change.changed > 0 || this.verdict(tensor) !== "changed");
  }

  /**
   * Returns a text about NaN and infinite values, and their number, if the models differ in them. The numbers are
   * exact, or those found so far.
   */
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

  /** Returns whether a tensor shares the data of another one in both models, so that it is not compared separately. */
  isTied({ name }: TensorInfo): boolean {
    return this.#owners.has(name);
  }

  /**
   * Returns the figures over the `tensors` that were compared; `undefined` if none was. Integers and masks count only
   * if there are no floats, because the squares of positions would hide any change of weights. Tied data counts once.
   * With `others`, tensors that were not compared count as unchanged, so the figures are lower bounds.
   */
  sum(tensors: readonly TensorInfo[], others = false): ChangeSum | undefined {
    return atOnce(this.sumInSteps(tensors, others));
  }

  /** Does the same in a step for each tensor. */
  *sumInSteps(tensors: readonly TensorInfo[], others = false): Steps<ChangeSum | undefined> {
    const floats = tensors.filter(({ dtype }) => isFloat(dtype));
    const parts: Part[] = [];
    for (const tensor of this.#withoutTied(floats.length > 0 ? floats : tensors)) {
      if (others || this.has(tensor)) parts.push(this.#part(tensor));
      yield;
    }
    if (parts.length === 0) return undefined;
    const [values, compared] = [total(parts, ({ count }) => count), total(parts, ({ change, count }) => (change.exact ? count : change.compared))];
    const isExact = parts.every(({ change }) => change.exact);
    const comparedShare = values === 0 ? 1 : compared / values;
    const changedShare = figureOf(parts, ({ changed }) => changed, () => 0, () => values);
    const numeric = parts.filter(({ change }) => change.numeric && floats.length > 0);
    const isOfChanged = numeric.some(({ change }) => Number.isNaN(change.baseSquares)) && numeric.some(({ change }) => change.squares > 0);
    const normed = numeric.filter(({ change }) => !Number.isNaN(change.baseSquares));
    const nothing = isExact && parts.every(({ change }) => change.changed === 0);
    const squared = normed.length > 0 ? figureOf(normed, ({ squares }) => squares, ({ baseSquares }) => baseSquares, () => total(normed, ({ change, scale }) => change.baseSquares * scale)) : undefined;
    // A lower bound needs the norms of all tensors.
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

/** A compared tensor: its sums, the number of its values, and the number of values that each compared value represents. */
interface Part {
  readonly change: TensorChange;
  readonly count: number;
  readonly scale: number;
}

/** Returns the change of a tensor that is recorded as equal. Its norm is NaN if it is unknown. */
function sameChange({ name }: TensorInfo, count: number, baseSquares: number | undefined): TensorChange {
  return { name, exact: true, compared: count, changed: 0, squares: 0, baseSquares: baseSquares ?? Number.NaN, gained: 0, lost: 0, numeric: true, groups: [], leftBytes: 0 };
}

const total = (parts: readonly Part[], of: (part: Part) => number): number => parts.reduce((sum, part) => sum + of(part), 0);

/**
 * Returns the ratio of two sums over all tensors, with its margin: the sum of `over` divided by the sum of `under`, or
 * by a constant if `under` is zero. `undefined` if a sampled tensor has too few groups of rows for a margin.
 */
function figureOf(parts: readonly Part[], over: (sums: ChangeSums) => number, under: (sums: ChangeSums) => number, wholeUnder: () => number): Figure | undefined {
  const base = wholeUnder();
  const value = base === 0 ? 0 : total(parts, ({ change, scale }) => over(change) * scale) / base;
  if (!Number.isFinite(value) && !(value === Number.POSITIVE_INFINITY)) return undefined;
  let variance = 0;
  for (const { change, count, scale } of parts) {
    if (change.exact) continue;
    // The error that the sum of this tensor contributes to the ratio.
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

/** Returns the square root of a figure. Its margin is the larger distance to an end of the transformed interval. */
function rootOf({ value, margin }: Figure): Figure {
  const root = Math.sqrt(value);
  if (margin === undefined) return { value: root };
  return { value: root, margin: Math.max(Math.sqrt(value + margin) - root, root - Math.sqrt(Math.max(0, value - margin))) };
}
