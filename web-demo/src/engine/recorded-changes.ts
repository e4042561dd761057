/**
 * Compares the facts that two open models record about their tensors: equal digests, and counts of NaN and infinity. Of a
 * delta and its base, one tensor is read.
 */

import type { Model, TensorInfo, TensorStatistics } from "zstn";
import type { StatedChange } from "./tensor-change.js";

/** A longer tensor is not read to check the base of a delta if there is a shorter one. */
const MAX_CHECKED_BYTES = 4 << 20;

/** Returns the facts that the files record about tensors of both models. Rejects if one is a delta of another base. */
export async function statedChanges(first: Model, second: Model, names: readonly string[]): Promise<StatedChange[]> {
  const models = [first, second];
  const delta = first.base === second ? first : second.base === first ? second : undefined;
  if (delta) await checkBase(delta, names);
  // Damaged statistics are treated as missing.
  const statistics = await Promise.all(models.map((model) => model.statistics().catch(() => undefined)));
  return names.map((name) => {
    const infos = models.map((model) => model.tensors.get(name)!) as [TensorInfo, TensorInfo];
    const isSame = isSameTensor(...infos, delta?.tensors.get(name)!.base);
    const [left, right] = statistics.map((all) => all?.get(name));
    return {
      name,
      ...(isSame !== undefined && { isSame }),
      ...(left && right && { nonFinite: [nonFiniteIn(left), nonFiniteIn(right)] as const }),
      ...(right && { baseSquares: squaresOf(right) }),
    };
  });
}

/**
 * Reads one tensor that the delta copies from its base, and thereby compares it with its digest. Rejects if it differs.
 * This detects other models, which differ in nearly every tensor, but not a model that differs in other tensors only.
 */
async function checkBase(delta: Model, names: readonly string[]): Promise<void> {
  const copies = names.map((name) => delta.tensors.get(name)!).filter(({ base, byteLength }) => base === "copy" && byteLength > 0);
  copies.sort((a, b) => a.byteLength - b.byteLength);
  // Short tensors, such as positions, may be equal in unrelated models.
  const checked = copies.findLast(({ byteLength }) => byteLength <= MAX_CHECKED_BYTES) ?? copies[0];
  if (checked) await delta.tensor(checked.name);
}

/** `use` is how a delta uses its base, if one of the models is the base of the other. */
function isSameTensor(a: TensorInfo, b: TensorInfo, use: TensorInfo["base"]): boolean | undefined {
  // Equal values of different dtypes have different bytes.
  if (a.dtype !== b.dtype || a.byteLength !== b.byteLength) return undefined;
  if (a.byteLength === 0) return true;
  if (a.digest !== undefined && b.digest !== undefined) return a.digest === b.digest;
  return use === undefined ? undefined : use === "copy";
}

const nonFiniteIn = ({ nans, infinities }: TensorStatistics): number => nans + infinities;

function squaresOf(all: TensorStatistics): number {
  const finite = all.count - nonFiniteIn(all);
  return finite === 0 ? 0 : all.rms ** 2 * finite;
}
