/** What the parts of a comparison show, counted in one pass over its tensors. */

import type { TensorInfo } from "zstn";
import type { Steps } from "../../engine/turns.js";
import { isFloat } from "../../tree/dtype-family.js";
import type { ChangeSum, MeasuredChanges, Verdict } from "./measured.js";

/** A tensor that differs between the models. */
export interface ChangedTensor {
  readonly tensor: TensorInfo;
  /** The number of values that became NaN or infinite, or became finite again. */
  readonly nonFinite: number;
}

export interface ChangeSummary {
  /** The number of tensors, and how many of them have each verdict. */
  readonly tensors: number;
  readonly verdicts: Readonly<Record<Verdict, number>>;
  /** The number of tensors that need no further reads, and of those among them that only recorded facts prove to be the same. */
  readonly settled: number;
  readonly onlyStated: number;
  readonly changed: readonly ChangedTensor[];
  /** The integers and masks, if there are floats as well; otherwise all numbers are 0. */
  readonly integers: { readonly tensors: number; readonly masks: number; readonly changed: number; readonly same: number };
  /** The weights are the floats, or all tensors if there are none. */
  readonly hasFloats: boolean;
  /** The number of weights that are not measured. */
  readonly missing: number;
  /** True if there are figures: nothing changed, or a changed tensor has been measured. */
  readonly isMeasured: boolean;
  /** The figures over the weights. */
  readonly sum: ChangeSum | undefined;
}

/** Summarizes the changes of `shared` tensors, one in each step. */
export function* summaryInSteps(shared: readonly TensorInfo[], measured: MeasuredChanges): Steps<ChangeSummary> {
  const hasFloats = shared.some(({ dtype }) => isFloat(dtype));
  const verdicts = { same: 0, changed: 0, undecided: 0 };
  const integers = { tensors: 0, masks: 0, changed: 0, same: 0 };
  const changed: ChangedTensor[] = [];
  const weights: TensorInfo[] = [];
  let [settled, onlyStated, missing, isNothing, hasChange] = [0, 0, 0, true, false];
  for (const tensor of shared) {
    yield;
    const verdict = measured.verdict(tensor);
    verdicts[verdict] += 1;
    if (measured.isSettled(tensor)) settled += 1;
    if (measured.isOnlyStated(tensor)) onlyStated += 1;
    const nonFinite = measured.finiteness(tensor)?.count ?? 0;
    if (verdict === "changed" || nonFinite > 0) changed.push({ tensor, nonFinite });
    if (hasFloats && !isFloat(tensor.dtype)) {
      integers.tensors += 1;
      if (tensor.dtype === "BOOL") integers.masks += 1;
      if (verdict !== "undecided") integers[verdict] += 1;
      continue;
    }
    weights.push(tensor);
    const isKnown = measured.has(tensor);
    if (!isKnown) missing += 1;
    if (verdict !== "same") isNothing = false;
    if (isKnown && verdict !== "same") hasChange = true;
  }
  const sum = yield* measured.sumInSteps(weights, missing > 0);
  return { tensors: shared.length, verdicts, settled, onlyStated, changed, integers, hasFloats, missing, isMeasured: sum !== undefined && (isNothing || hasChange), sum };
}
