/** The metrics of a comparison. */

import type { TensorInfo } from "zstn";
import { approximately, formatShare } from "../../page/format.js";
import type { Mark, Metric } from "../picture/metric.js";
import type { Figure, MeasuredChanges } from "./measured.js";

/** The tensors of the delta, by name, if one of the two models is a delta. */
export type DeltaTensors = ReadonlyMap<string, TensorInfo> | undefined;

/** Returns the available metrics, best one first. */
export function changeMetrics(measured: MeasuredChanges, delta: DeltaTensors): Metric[] {
  const own = { mark: (tensors: readonly TensorInfo[]) => markOf(tensors, measured), describe: (tensors: readonly TensorInfo[]) => describeChange(tensors, measured) };
  const relative: Metric = {
    ...own,
    key: "change",
    label: "relative change",
    scale: "root",
    palette: "change",
    value: (tensors) => valueOf(tensors, measured, (name) => measured.sum(name)?.relative),
    text: (tensors) => figureText(measured.sum(tensors)?.relative, formatChange),
    format: formatChange,
  };
  const share: Metric = {
    ...relative,
    key: "changed",
    label: "values changed",
    value: (tensors) => valueOf(tensors, measured, (name) => measured.sum(name)?.changedShare),
    text: (tensors) => figureText(measured.sum(tensors)?.changedShare, formatShare),
    format: formatShare,
  };
  if (!delta) return [relative, share];
  const stored: Metric = {
    ...own,
    mark: (tensors) => (markOf(tensors, measured) === "non-finite" ? "non-finite" : undefined),
    key: "stored",
    label: "stored change",
    scale: "root",
    palette: "change",
    value: (tensors) => storedChange(tensors, delta),
    format: formatShare,
    describe: (tensors) => {
      const value = storedChange(tensors, delta);
      return [value !== undefined && `stored change ${formatShare(value)}`, describeChange(tensors, measured)].filter(Boolean).join(", ");
    },
  };
  return [relative, share, stored];
}

/** Returns the value that colours a cell; `undefined` if tensors changed by an unknown amount, which has a mark of its own. */
function valueOf(tensors: readonly TensorInfo[], measured: MeasuredChanges, figure: (tensors: readonly TensorInfo[]) => Figure | undefined): number | undefined {
  if (tensors.every((tensor) => measured.verdict(tensor) === "same")) return 0;
  const value = figure(tensors)?.value;
  return value === 0 && tensors.some((tensor) => measured.verdict(tensor) === "changed") ? undefined : value;
}

/** Returns the mark of a cell, in addition to its colour. */
function markOf(tensors: readonly TensorInfo[], measured: MeasuredChanges): Mark | undefined {
  if (tensors.some((tensor) => measured.finiteness(tensor))) return "non-finite";
  if (tensors.every((tensor) => measured.verdict(tensor) === "same")) return undefined;
  if (tensors.some((tensor) => measured.verdict(tensor) === "changed")) return tensors.every((tensor) => measured.verdict(tensor) === "same" || measured.has(tensor)) ? undefined : "changed";
  return measured.sum(tensors) ? "sampled" : undefined;
}

/**
 * Returns the stored length of a delta divided by the length of its tensors. It grows with the change, but does not
 * measure it.
 */
export function storedChange(tensors: readonly TensorInfo[], delta: ReadonlyMap<string, TensorInfo>): number | undefined {
  let [stored, all] = [0, 0];
  for (const { name, byteLength } of tensors) {
    const tensor = delta.get(name);
    if (!tensor) return undefined;
    if (tensor.base !== "copy") stored += tensor.storedLength;
    all += byteLength;
  }
  return all === 0 ? undefined : stored / all;
}

/** Returns a sentence about the proved, measured or estimated change of some tensors. */
function describeChange(tensors: readonly TensorInfo[], measured: MeasuredChanges): string {
  if (tensors.every((tensor) => measured.verdict(tensor) === "same")) return "unchanged";
  const found = tensors.flatMap((tensor) => measured.finiteness(tensor)?.text ?? []);
  const finiteness = found.length === 1 ? found : found.length > 1 ? [`NaN or ∞ differ in ${found.length} tensors`] : [];
  return [...finiteness, describeSize(tensors, measured)].join("; ");
}

function describeSize(tensors: readonly TensorInfo[], measured: MeasuredChanges): string {
  const sum = measured.sum(tensors);
  const isChanged = tensors.some((tensor) => measured.verdict(tensor) === "changed");
  const seen = tensors.reduce((most, tensor) => most + (measured.of(tensor)?.changed ?? 0), 0);
  if (isChanged && (!sum || seen === 0)) return "changed, by an amount that was not measured";
  if (!sum) return "not compared yet";
  if (seen === 0) return `no change in a sample of ${formatShare(sum.comparedShare)}`;
  const parts = [
    sum.relative && (sum.relative.value > 0 || sum.relative.margin !== undefined) && `${figureText(sum.relative, formatChange)} relative change`,
    sum.changedShare && `${figureText(sum.changedShare, formatShare)} of values changed`,
  ].filter((part) => typeof part === "string");
  return parts.length > 0 ? parts.join(", ") : `changed; a sample of ${formatShare(sum.comparedShare)} is too small to say how much`;
}

/** Formats a figure: "2.21 %", or "≈ 2.21 % ± 0.30 %" for an estimate; `undefined` if there is none. */
export function figureText(figure: Figure | undefined, format: (value: number) => string): string | undefined {
  if (!figure) return undefined;
  return figure.margin === undefined ? format(figure.value) : `${approximately(format(figure.value))} ± ${format(figure.margin)}`;
}

/** Formats a relative change. A change from all zeros has no relative size. */
export const formatChange = (value: number): string => (Number.isFinite(value) ? formatShare(value) : "was all zeros");
