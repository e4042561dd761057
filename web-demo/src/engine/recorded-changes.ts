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
  if (a.digest !== undefined && b.digest !== undefined) return a.digest === b.digest;
  // If one of the models is a delta of the other, it copies the tensors that are equal.
  const base = a.base ?? b.base;
  return base === undefined ? undefined : base === "copy";
}

const nonFiniteIn = ({ nans, infinities }: TensorStatistics): number => nans + infinities;

function squaresOf(all: TensorStatistics): number {
  const finite = all.count - nonFiniteIn(all);
  return finite === 0 ? 0 : all.rms ** 2 * finite;
}
