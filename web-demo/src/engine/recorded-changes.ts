/**
 * Compares the facts that two open models record about their tensors: equal digests, and counts of NaN and infinity. No
 * tensor is read.
 */

import type { Model, TensorInfo, TensorStatistics } from "zstn";
import type { StatedChange } from "./tensor-change.js";

/** Returns the facts that the files record about tensors of both models. */
export async function statedChanges(first: Model, second: Model, names: readonly string[]): Promise<StatedChange[]> {
  const models = [first, second];
  // Damaged statistics are treated as missing.
  const statistics = await Promise.all(models.map((model) => model.statistics().catch(() => undefined)));
  return names.map((name) => {
    const infos = models.map((model) => model.tensors.get(name)!) as [TensorInfo, TensorInfo];
    const isSame = isSameTensor(...infos);
    const [left, right] = statistics.map((all) => all?.get(name));
    return {
      name,
      ...(isSame !== undefined && { isSame }),
      ...(left && right && { nonFinite: [nonFiniteIn(left), nonFiniteIn(right)] as const }),
      ...(right && { baseSquares: squaresOf(right) }),
    };
  });
}

function isSameTensor(a: TensorInfo, b: TensorInfo): boolean | undefined {
  // Equal values of different dtypes have different bytes.
  if (a.dtype !== b.dtype || a.byteLength !== b.byteLength) return undefined;
  if (a.byteLength === 0) return true;
  // A delta states which tensors equal those of its base, but the other model may not be that base.
  return a.digest !== undefined && b.digest !== undefined ? a.digest === b.digest : undefined;
}

const nonFiniteIn = ({ nans, infinities }: TensorStatistics): number => nans + infinities;

function squaresOf(all: TensorStatistics): number {
  const finite = all.count - nonFiniteIn(all);
  return finite === 0 ? 0 : all.rms ** 2 * finite;
}
