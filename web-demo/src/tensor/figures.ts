/** The statistics of a tensor. What a sample cannot say exactly is marked. */

import type { TensorInfo } from "zstn";
import type { Description } from "../engine/protocol.js";
import { element, dataValue } from "../page/element.js";
import { formatCount, formatShare, formatValue, plural } from "../page/format.js";

/** Returns whether every value was read. */
export const isComplete = ({ rowsRead, rows }: Description): boolean => rowsRead >= rows;

interface Shown {
  readonly min: number;
  readonly max: number;
  readonly mean: number;
  readonly standardDeviation: number;
  readonly norm: number;
  readonly zeroShare: number;
  readonly nans: number;
  readonly infinities: number;
}

export function figures(description: Description): HTMLElement {
  const { total, count, zeroRows, rowsRead, difference, stored } = description;
  const exact = isComplete(description);
  // Stored figures are those of the whole tensor.
  const known = exact || stored !== undefined;
  const about = known ? "" : "≈ ";
  const { min, max, mean, standardDeviation, norm, zeroShare, nans, infinities } = stored ? storedFigures(stored) : sampledFigures(description);
  const entries: [string, number, string][] = [
    ["min", min, `${known ? "" : "≤ "}${formatValue(min)}`],
    ["max", max, `${known ? "" : "≥ "}${formatValue(max)}`],
    ["mean", mean, about + formatValue(mean)],
    ["std. dev.", standardDeviation, about + formatValue(standardDeviation)],
    ["norm", norm, about + formatValue(norm)],
    // Zeros come in whole rows, which a sample can miss or overstate.
    [known ? "zeros" : "zeros in the sample", zeroShare, formatShare(zeroShare)],
  ];
  if (difference) {
    const changed = difference.changed / Math.max(1, count);
    entries.push(["changed", exact ? difference.changed : changed * total, `${exact ? "" : "≈ "}${formatShare(changed)}`]);
    entries.push(["relative norm", difference.relativeNorm, `${exact ? "" : "≈ "}${formatRelative(difference.relativeNorm)}`]);
  }
  const sampled = known ? "" : " in the sample";
  const odd = [
    zeroRows > 0 && rowsRead > 1 && `${formatCount(zeroRows)} of ${formatCount(rowsRead)} ${exact ? "" : "sampled "}rows are all zeros`,
    nans > 0 && `${formatCount(nans)} NaN${sampled}`,
    infinities > 0 && `${formatCount(infinities)} infinite${sampled}`,
    difference !== undefined && difference.skipped > 0 && `the relative norm leaves out ${plural(difference.skipped, "pair")} with NaN or ∞${sampled}`,
  ].filter((text) => text !== false);
  const list = element("dl", { class: "statistics" }, ...entries.map(([label, value, text]) => element("div", {}, element("dt", {}, label), element("dd", {}, dataValue(value, text)))));
  return element("div", {}, list, odd.length > 0 && element("p", { class: "odd" }, `${odd.join("; ")}.`));
}

/** Returns the figures of what was read; the norm, which grows with the number of values, is scaled to the tensor. */
function sampledFigures({ total, count, min, max, mean, standardDeviation, norm, zeros, nans, infinities }: Description): Shown {
  const values = Math.max(1, count);
  return { min, max, mean, standardDeviation, norm: norm * Math.sqrt(total / values), zeroShare: zeros / values, nans, infinities };
}

function storedFigures({ count, min, max, mean, rms, zeros, nans, infinities }: NonNullable<Description["stored"]>): Shown {
  const standardDeviation = Math.sqrt(Math.max(0, rms ** 2 - mean ** 2));
  return { min, max, mean, standardDeviation, norm: rms * Math.sqrt(count - nans - infinities), zeroShare: zeros / Math.max(1, count), nans, infinities };
}

/** A relative norm has no percentage where everything is subtracted from zeros. */
const formatRelative = (share: number) => (Number.isFinite(share) ? formatShare(share) : "–");

/** Returns the entropy of an exponent, and the bits that the file spends on a whole value. */
export function bitsLine(description: Description, info: TensorInfo): HTMLElement | undefined {
  const { exponents } = description;
  const count = info.shape.reduce((product, size) => product * size, 1);
  if (!exponents || count === 0 || info.base === "copy") return undefined;
  const { entropyBits, exponentBits, otherBits } = exponents;
  const stored = (8 * info.storedLength) / count;
  const about = isComplete(description) ? "" : "≈ ";
  const part = (label: string, value: number, digits = 2, before = "") => element("div", {}, element("dt", {}, label), element("dd", {}, dataValue(value, before + value.toFixed(digits))));
  return element(
    "dl",
    { class: "bits", "aria-label": "Bits per value" },
    part(`Exponent entropy (of ${exponentBits} bits)`, entropyBits, 2, about),
    part("Sign and mantissa", otherBits, 0),
    part("Exponents at entropy, rest raw", entropyBits + otherBits, 2, about),
    part(info.aliasOf === undefined ? "Actual bits per weight" : "Actual bits per weight (tied)", stored),
  );
}
