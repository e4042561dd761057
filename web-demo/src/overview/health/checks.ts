/** Checks the statistics of all tensors for signs of damage. */

import type { TensorInfo } from "zstn";
import type { Measured } from "../../engine/statistics-table.js";
import { formatCount, formatMagnitude, formatShare, formatValue, plural } from "../../page/format.js";
import { isFloat } from "../../tree/dtype-family.js";
import { placeOf } from "../layers/stacks.js";

export type Problem = "nan" | "infinite" | "zero" | "dead" | "outlier" | "unlike";

/** A tensor with a problem. */
export interface Finding {
  readonly problem: Problem;
  readonly tensor: TensorInfo;
  readonly text: string;
}

export interface Checkup {
  /** All findings, by problem and then in file order. */
  readonly findings: readonly Finding[];
  /** The number of floating-point tensors with statistics; `floats` is the number of all of them. */
  readonly checked: number;
  readonly floats: number;
  /** The number of matrices that were compared with those of the same module in other layers. */
  readonly compared: number;
}

/** The order of findings, from the worst on. */
export const PROBLEMS: readonly Problem[] = ["nan", "infinite", "zero", "dead", "outlier", "unlike"];

/** The minimum number of equal modules whose median is meaningful. */
const MIN_SIBLINGS = 3;
/** A matrix is unlike its siblings if its RMS is more than this many times their median, or less than the median divided by it. */
const UNLIKE = 2;
/**
 * An outlier has a magnitude of at least this many times the RMS of its matrix. This ratio is also at least this many
 * times the median of its siblings. Normally distributed values reach about six times the RMS.
 */
const OUTLIER = 30;
const OUTLIER_OF_SIBLINGS = 3;
/** The same for a matrix without siblings, such as an embedding. */
const OUTLIER_ALONE = 100;
/** The minimum row length at which zeros that could fill whole rows are more than a coincidence. */
const MIN_COLUMNS = 32;
/** The fraction of zeros from which on a matrix counts as sparse, and not as one with dead rows. */
const SPARSE = 0.45;

/** Checks the floating-point tensors of a model that have statistics. */
export function checkup(tensors: readonly TensorInfo[], statistics: ReadonlyMap<string, Measured>): Checkup {
  const floats = tensors.filter(({ dtype, shape }) => isFloat(dtype) && !shape.includes(0));
  const known = floats.flatMap((tensor) => (statistics.has(tensor.name) ? [{ tensor, own: statistics.get(tensor.name)! }] : []));
  const found: Finding[] = [];
  const add = (problem: Problem, tensor: TensorInfo, text: string): void => void found.push({ problem, tensor, text });
  for (const { tensor, own } of known) {
    if (own.nans > 0) add("nan", tensor, own.nans === own.count ? "every value is NaN" : `${formatCount(own.nans)} NaN`);
    if (own.infinities > 0) add("infinite", tensor, `${formatCount(own.infinities)} infinite`);
    if (own.zeros === own.count) add("zero", tensor, `all ${plural(own.count, "value")} are zero`);
  }
  let compared = 0;
  for (const group of siblingsOf(known.filter(({ tensor, own }) => isMatrix(tensor) && own.zeros < own.count))) {
    const hasMedian = group.length >= MIN_SIBLINGS;
    if (hasMedian) compared += group.length;
    const rms = median(group.map(({ own }) => own.rms));
    const peak = median(group.map(({ own }) => peakOf(own)));
    const zeros = median(group.map(({ own }) => own.zeros / own.count));
    for (const { tensor, own } of group) {
      const dead = deadRows(tensor, own, hasMedian ? zeros : 0);
      if (dead !== undefined) add("dead", tensor, dead);
      const ratio = peakOf(own);
      if (ratio >= (hasMedian ? Math.max(OUTLIER, OUTLIER_OF_SIBLINGS * peak) : OUTLIER_ALONE)) add("outlier", tensor, `a magnitude of ${formatValue(largest(own))}, ${formatMagnitude(Math.round(ratio))} times the RMS`);
      if (hasMedian && (own.rms > UNLIKE * rms || own.rms < rms / UNLIKE)) add("unlike", tensor, `RMS ${formatValue(own.rms, 3)}, the median of ${group.length} is ${formatValue(rms, 3)}`);
    }
  }
  const position = new Map(tensors.map((tensor, i) => [tensor, i]));
  const rank = ({ problem, tensor }: Finding): number => PROBLEMS.indexOf(problem) * tensors.length + position.get(tensor)!;
  return { findings: found.sort((a, b) => rank(a) - rank(b)), checked: known.length, floats: floats.length, compared };
}

interface Known {
  readonly tensor: TensorInfo;
  readonly own: Measured;
}

const isMatrix = ({ shape }: TensorInfo): boolean => {
  const count = shape.reduce((product, size) => product * size, 1);
  return shape.length >= 2 && shape.every((size) => size < count);
};

/** Returns the matrices of each module, over all layers and experts. Only matrices of the same shape are siblings. */
function siblingsOf(known: readonly Known[]): Known[][] {
  const groups = new Map<string, Known[]>();
  for (const one of known) {
    const { name, shape } = one.tensor;
    const place = placeOf(one.tensor);
    // A tensor outside of the layers has no siblings.
    const key = place ? `${place.prefix} ${place.kind} ${shape.join()}` : `${name} alone`;
    const group = groups.get(key);
    if (group) group.push(one);
    else groups.set(key, [one]);
  }
  return [...groups.values()];
}

function median(values: readonly number[]): number {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  if (sorted.length === 0) return Number.NaN;
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

const largest = ({ min, max }: Measured): number => Math.max(-min, max);

/** Returns the largest magnitude, in multiples of the RMS; NaN if no value is finite or all are zero. */
const peakOf = (own: Measured): number => (own.rms > 0 ? largest(own) / own.rms : Number.NaN);

/**
 * Describes rows of zeros. If the values were read, their number is exact. Otherwise the zeros beyond the usual share
 * of the siblings have to be enough for whole rows, and reading can tell whether they are.
 */
function deadRows({ shape }: TensorInfo, own: Measured, usual: number): string | undefined {
  const columns = shape.at(-1)!;
  if (own.zeroRows !== undefined) return own.zeroRows > 0 ? `${plural(own.zeroRows, "row")} of zeros` : undefined;
  const excess = own.zeros - usual * own.count;
  const rows = Math.floor(excess / columns);
  if (columns < MIN_COLUMNS || rows < 1 || own.zeros > SPARSE * own.count) return undefined;
  return `${formatShare(own.zeros / own.count)} zeros, enough for ${plural(rows, "row")}`;
}
