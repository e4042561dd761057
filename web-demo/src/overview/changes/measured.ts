/** The measured changes of a model, and what they amount to. */

import type { TensorInfo } from "zstn";
import type { ChangesResult, TensorChange } from "../../engine/tensor-change.js";
import { isFloat } from "../../tree/dtype-family.js";
import { countValues } from "../picture/metric.js";

/** Sums over some tensors. A sampled tensor counts by its size, as if the rest of it were like the sample. */
export interface ChangeSum {
  /** The share of values that differ. */
  readonly changedShare: number;
  /** The norm of the difference, divided by that of the second model; `undefined` where values are not float numbers. */
  readonly relative: number | undefined;
  /** Whether all values were compared, and not just a sample. */
  readonly isExact: boolean;
  /** The values of these tensors, and how many of them were compared. */
  readonly values: number;
  readonly comparedShare: number;
}

export class MeasuredChanges {
  readonly #changes = new Map<string, TensorChange>();
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

  /** What was fetched for all of them, in bytes. */
  get fetchedBytes(): number {
    return this.#fetchedBytes;
  }

  of({ name }: TensorInfo): TensorChange | undefined {
    return this.#changes.get(this.#owners.get(name) ?? name);
  }

  /** Returns whether a tensor was compared, in part or whole. */
  has(tensor: TensorInfo): boolean {
    return (this.of(tensor)?.compared ?? 0) > 0 || this.of(tensor)?.exact === true;
  }

  /** Returns whether a tensor has the data of another one in both models, so that it is not compared by itself. */
  isTied({ name }: TensorInfo): boolean {
    return this.#owners.has(name);
  }

  /**
   * Sums over those of `tensors` that were compared; `undefined` if none was. Integers and masks count only where there
   * are no floats: the squares of positions would hide any change of weights. Tied data counts once.
   */
  sum(tensors: readonly TensorInfo[]): ChangeSum | undefined {
    const floats = tensors.filter(({ dtype }) => isFloat(dtype));
    const counted = this.#withoutTied(floats.length > 0 ? floats : tensors).filter((tensor) => this.has(tensor));
    if (counted.length === 0) return undefined;
    let [changed, squares, baseSquares, values, compared, isExact, numeric] = [0, 0, 0, 0, 0, true, false];
    for (const tensor of counted) {
      const change = this.of(tensor)!;
      const count = comparedValuesIn(tensor);
      const scale = count / Math.max(1, change.compared);
      changed += change.changed * scale;
      values += count;
      compared += change.exact ? count : change.compared;
      isExact &&= change.exact;
      if (!change.numeric || floats.length === 0) continue;
      numeric = true;
      squares += change.squares * scale;
      baseSquares += change.baseSquares * scale;
    }
    // Values that are not numbers can still be equal.
    const relative = squares === 0 && (numeric || (isExact && changed === 0)) ? 0 : numeric ? Math.sqrt(squares / baseSquares) : undefined;
    return { changedShare: values === 0 ? 0 : changed / values, relative, isExact, values, comparedShare: values === 0 ? 1 : compared / values };
  }

  #withoutTied(tensors: readonly TensorInfo[]): readonly TensorInfo[] {
    if (tensors.length < 2 || this.#owners.size === 0) return tensors;
    const names = new Set(tensors.map(({ name }) => name));
    return tensors.filter(({ name }) => !names.has(this.#owners.get(name) ?? ""));
  }
}

/** Returns how many values of a tensor are compared if all are: two for each complex number, and the bytes of packed types. */
function comparedValuesIn(tensor: TensorInfo): number {
  if (/^F[46](_|$)/.test(tensor.dtype)) return tensor.byteLength;
  return countValues([tensor]) * (tensor.dtype === "C64" ? 2 : 1);
}
