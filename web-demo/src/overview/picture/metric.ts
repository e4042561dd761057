/** Metrics: the values that a picture of the model shows as colours. */

import type { TensorInfo } from "zstn";
import type { PlainStatistics, StatisticsTable } from "../../engine/statistics-table.js";
import { formatBytes, formatCount, formatShare, formatValue } from "../../page/format.js";
import { originalBytesOf, ownBytes } from "../../tree/node.js";
import type { Palette, ScaleKind } from "./scale.js";

export interface Metric {
  /** The name in the URL. */
  readonly key: string;
  readonly label: string;
  readonly scale: ScaleKind;
  readonly palette: Palette;
  /** Returns the value of some tensors taken together; `undefined` while it is unknown. */
  readonly value: (tensors: readonly TensorInfo[]) => number | undefined;
  readonly format: (value: number) => string;
  /** True if only matrices determine the scale. Normalisation weights near 1 would take up most of it. */
  readonly isOfMatrices?: boolean;
  /** Returns the text of a value, with its margin if it is an estimate. */
  readonly text?: (tensors: readonly TensorInfo[]) => string | undefined;
  /** Returns a sentence about tensors whose value is unknown or is more than a number. */
  readonly describe?: (tensors: readonly TensorInfo[]) => string;
  /** Returns the mark of some tensors, in addition to their colour. */
  readonly mark?: (tensors: readonly TensorInfo[]) => Mark | undefined;
}

/** A mark that is drawn as a pattern: NaN or infinite values, a change of unknown size, or a sample without a change. */
export type Mark = "non-finite" | "changed" | "sampled";

/** The meanings of the marks in pictures of one model and of two. */
export const MARK_TEXTS: Readonly<Record<Mark, string>> = { "non-finite": "NaN or ∞", changed: "changed, size not measured", sampled: "no change in a sample" };

export const countValues = (tensors: readonly Pick<TensorInfo, "shape">[]): number => tensors.reduce((sum, { shape }) => sum + shape.reduce((product, size) => product * size, 1), 0);

const SIZE: Metric = {
  key: "size",
  label: "size",
  scale: "root",
  palette: "amount",
  value: (tensors) => tensors.reduce((sum, tensor) => sum + originalBytesOf(tensor), 0),
  format: formatBytes,
};

const BITS: Metric = {
  key: "bits",
  label: "bits per weight",
  scale: "linear",
  palette: "amount",
  // Tied tensors have no stored bytes of their own, so they have no bits per weight, and 0 would be misleading.
  value: (tensors) => {
    const own = tensors.filter(({ aliasOf, byteLength }) => aliasOf === undefined && byteLength > 0);
    const values = countValues(own);
    return values === 0 ? undefined : (8 * own.reduce((sum, tensor) => sum + ownBytes(tensor), 0)) / values;
  },
  format: (value) => `${value.toFixed(2)} bits`,
};

/** Returns the metrics that need no tensor bytes. */
export function metricsOf(statistics: StatisticsTable | undefined): Metric[] {
  if (!statistics) return [SIZE, BITS];
  const nonFinite = (tensors: readonly TensorInfo[]): string => nonFiniteText(tensors, statistics);
  return [SIZE, BITS, ...fromStatistics(statistics)].map((metric) => ({
    ...metric,
    mark: (tensors) => (nonFinite(tensors) === "" ? undefined : "non-finite"),
    describe: (tensors) => {
      const value = metric.value(tensors);
      return [`${metric.label} ${value === undefined ? "not known" : metric.format(value)}`, nonFinite(tensors)].filter((part) => part !== "").join(", ");
    },
  }));
}

/** Formats the number of non-finite values, such as "1,536 NaN, 2 ∞"; empty for tensors without any. */
export function nonFiniteText(tensors: readonly TensorInfo[], statistics: StatisticsTable): string {
  const all = tensors.flatMap((tensor) => statistics.of(tensor) ?? []);
  const [nans, infinities] = [total(all, (one) => one.nans), total(all, (one) => one.infinities)];
  return [nans > 0 && `${formatCount(nans)} NaN`, infinities > 0 && `${formatCount(infinities)} ∞`].filter((part) => part !== false).join(", ");
}

function fromStatistics(statistics: StatisticsTable): Metric[] {
  const known = (tensors: readonly TensorInfo[]): PlainStatistics[] => tensors.flatMap((tensor) => (isFloat(tensor.dtype) ? (statistics.of(tensor) ?? []) : []));
  const over = (tensors: readonly TensorInfo[], sum: (all: PlainStatistics[]) => number): number | undefined => {
    const all = known(tensors);
    // The value of a cell is unknown if one of its tensors has no statistics, or if none has a finite value.
    return all.length < tensors.length || all.every((one) => finiteIn(one) === 0) ? undefined : sum(all);
  };
  return [
    { key: "rms", isOfMatrices: true, label: "RMS", scale: "log", palette: "amount", format: formatValue, value: (tensors) => over(tensors, (all) => Math.sqrt(mean(all, ({ rms }) => rms * rms))) },
    {
      key: "std",
      isOfMatrices: true,
      label: "std. dev.",
      scale: "log",
      palette: "amount",
      format: formatValue,
      value: (tensors) => over(tensors, (all) => Math.sqrt(Math.max(0, mean(all, ({ rms }) => rms * rms) - mean(all, (one) => one.mean) ** 2))),
    },
    { key: "max", isOfMatrices: true, label: "max |w|", scale: "log", palette: "amount", format: formatValue, value: (tensors) => over(tensors, (all) => all.reduce((most, one) => (finiteIn(one) === 0 ? most : Math.max(most, -one.min, one.max)), 0)) },
    { key: "zeros", label: "zeros", scale: "root", palette: "amount", format: formatShare, value: (tensors) => over(tensors, (all) => total(all, ({ zeros }) => zeros) / total(all, ({ count }) => count)) },
  ];
}

const finiteIn = ({ count, nans, infinities }: PlainStatistics): number => count - nans - infinities;

const total = (all: readonly PlainStatistics[], of: (one: PlainStatistics) => number): number => all.reduce((sum, one) => sum + of(one), 0);

/** Returns the mean of a figure over several tensors, weighted by their finite elements. */
const mean = (all: readonly PlainStatistics[], of: (one: PlainStatistics) => number): number => total(all, (one) => (finiteIn(one) === 0 ? 0 : of(one) * finiteIn(one))) / total(all, finiteIn);

const isFloat = (dtype: string): boolean => /^(F64|F32|F16|BF16|F8)/.test(dtype);
