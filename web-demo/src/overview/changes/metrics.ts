/** The metrics of a comparison. */

import type { TensorInfo } from "zstn";
import { approximately, formatShare } from "../../page/format.js";
import type { Metric } from "../picture/metric.js";
import type { MeasuredChanges } from "./measured.js";

/** The tensors of the delta among the two models, by name; `undefined` if neither is one. */
export type DeltaTensors = ReadonlyMap<string, TensorInfo> | undefined;

/** Returns the metrics, the best one that is available first. */
export function changeMetrics(measured: MeasuredChanges, delta: DeltaTensors): Metric[] {
  const relative: Metric = {
    key: "change",
    label: "relative change",
    scale: "root",
    palette: "change",
    value: (tensors) => (isUnchanged(tensors, delta) ? 0 : measured.sum(tensors)?.relative),
    format: formatChange,
    describe: (tensors) => describeChange(tensors, measured, delta),
  };
  const share: Metric = { ...relative, key: "changed", label: "values changed", value: (tensors) => (isUnchanged(tensors, delta) ? 0 : measured.sum(tensors)?.changedShare) };
  if (!delta) return [relative, share];
  const stored: Metric = {
    key: "stored",
    label: "stored change",
    scale: "root",
    palette: "change",
    value: (tensors) => storedChange(tensors, delta),
    format: formatShare,
  };
  return [relative, share, stored];
}

/** Returns whether a delta says that these tensors are those of its base. */
export const isUnchanged = (tensors: readonly TensorInfo[], delta: DeltaTensors): boolean => delta !== undefined && tensors.every(({ name }) => delta.get(name)?.base === "copy");

/** Returns the stored bytes of a delta, divided by those of the tensors. It grows with the change, but is not its size. */
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

/** Returns a sentence about some tensors: measured, estimated, or not known. */
function describeChange(tensors: readonly TensorInfo[], measured: MeasuredChanges, delta: DeltaTensors): string {
  if (isUnchanged(tensors, delta)) return "unchanged";
  const sum = measured.sum(tensors);
  if (!sum) return "not compared yet";
  const about = (text: string): string => (sum.isExact ? text : approximately(text));
  if (sum.changedShare === 0) return sum.isExact ? "unchanged" : `no change in a sample of ${formatShare(sum.comparedShare)}`;
  const changed = `${about(formatShare(sum.changedShare))} of values changed`;
  return sum.relative === undefined ? changed : `${about(formatChange(sum.relative))} relative change, ${changed}`;
}

/** Formats a relative change. Where everything was zero before, it has no size. */
export const formatChange = (value: number): string => (Number.isFinite(value) ? formatShare(value) : "from zero");
