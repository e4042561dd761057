/** What two open models state about their tensors: which are the same, and which hold NaN or infinity. No tensor is read. */

import type { Model, TensorInfo, TensorStatistics } from "zstn";
import type { StatedChange } from "./tensor-change.js";

/** Returns what the files state about tensors of both models. */
export async function statedChanges(first: Model, second: Model, names: readonly string[]): Promise<StatedChange[]> {
  const models = [first, second];
  const [digests, statistics] = await Promise.all([
    // Plain files have none.
    Promise.all(models.map(async (model) => (model.kind === "safetensors" ? new Map<string, string>() : model.digests()))),
    // Damaged statistics are as good as none.
    Promise.all(models.map((model) => model.statistics().catch(() => undefined))),
  ]);
  return names.map((name) => {
    const infos = models.map((model) => model.tensors.get(name)!) as [TensorInfo, TensorInfo];
    const [own, other] = digests.map((all) => all.get(name));
    const isSame = isSameTensor(infos, own, other);
    const [left, right] = statistics.map((all) => all?.get(name));
    return {
      name,
      ...(isSame !== undefined && { isSame }),
      ...(left && right && { nonFinite: [nonFiniteIn(left), nonFiniteIn(right)] as const }),
      ...(right && { baseSquares: squaresOf(right) }),
    };
  });
}

function isSameTensor(infos: readonly [TensorInfo, TensorInfo], own: string | undefined, other: string | undefined): boolean | undefined {
  const [a, b] = infos;
  // Equal values of other dtypes have other bytes.
  if (a.dtype !== b.dtype || a.byteLength !== b.byteLength) return undefined;
  if (a.byteLength === 0) return true;
  if (own !== undefined && other !== undefined) return own === other;
  // One of the models is a delta of the other one: it copies what is the same.
  const base = a.base ?? b.base;
  return base === undefined ? undefined : base === "copy";
}

const nonFiniteIn = ({ nans, infinities }: TensorStatistics): number => nans + infinities;

function squaresOf(all: TensorStatistics): number {
  const finite = all.count - nonFiniteIn(all);
  return finite === 0 ? 0 : all.rms ** 2 * finite;
}
