/** The statistics of a tensor. Figures that a sample cannot determine exactly are marked. */

import type { TensorInfo } from "zstn";
import type { Description } from "../engine/protocol.js";
import { element, dataValue } from "../page/element.js";
import { approximately, formatCount, formatShare, formatValue, plural } from "../page/format.js";

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
  const { total, count, zeroRows, rowsRead, difference, stored, margins } = description;
  const exact = isComplete(description);
  // Stored figures cover the whole tensor.
  const known = exact || stored !== undefined;
  // An estimate without a margin is not shown, because its error is unknown.
  const estimate = (text: string, margin: number | undefined, format: (value: number) => string, isKnown = known): string => (isKnown ? text : margin === undefined ? "–" : `${approximately(text)} ± ${format(margin)}`);
  const short = (value: number): string => formatValue(value, 2);
  const { min, max, mean, standardDeviation, norm, zeroShare, nans, infinities } = stored ? storedFigures(stored) : sampledFigures(description);
  const entries: [string, number, string][] = [
    ["min", min, `${known ? "" : "≤ "}${formatValue(min)}`],
    ["max", max, `${known ? "" : "≥ "}${formatValue(max)}`],
    ["mean", mean, estimate(formatValue(mean), margins?.mean, short)],
    ["std. dev.", standardDeviation, estimate(formatValue(standardDeviation), margins?.standardDeviation, short)],
    ["norm", norm, estimate(formatValue(norm), margins?.norm, short)],
    // Zeros often fill whole rows, which a sample can miss or overrepresent.
    [known ? "zeros" : "zeros in the sample", zeroShare, formatShare(zeroShare)],
  ];
  if (difference) {
    const changed = difference.changed / Math.max(1, count);
    entries.push(["changed", exact ? difference.changed : changed * total, estimate(formatShare(changed), margins?.changed, formatShare, exact)]);
    entries.push(["relative norm", difference.relativeNorm, estimate(formatRelative(difference.relativeNorm), margins?.relativeNorm, formatShare, exact)]);
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

/**
 * Returns the figures of the values that were read. The norm, which grows with the number of values, is scaled to the
 * whole tensor.
 */
function sampledFigures({ total, count, min, max, mean, standardDeviation, norm, zeros, nans, infinities }: Description): Shown {
  const values = Math.max(1, count);
  return { min, max, mean, standardDeviation, norm: norm * Math.sqrt(total / values), zeroShare: zeros / values, nans, infinities };
}

function storedFigures({ count, min, max, mean, rms, zeros, nans, infinities }: NonNullable<Description["stored"]>): Shown {
  const standardDeviation = Math.sqrt(Math.max(0, rms ** 2 - mean ** 2));
  return { min, max, mean, standardDeviation, norm: rms * Math.sqrt(count - nans - infinities), zeroShare: zeros / Math.max(1, count), nans, infinities };
}

/** Formats a relative norm, which is undefined if the subtracted tensor contains only zeros. */
const formatRelative = (share: number) => (Number.isFinite(share) ? formatShare(share) : "–");

/** Returns the entropy of an exponent, and the number of bits that the file uses for a whole value. */
export function bitsLine(description: Description, info: TensorInfo): HTMLElement | undefined {
  const { exponents } = description;
  const count = info.shape.reduce((product, size) => product * size, 1);
  if (!exponents || count === 0 || info.base === "copy") return undefined;
  const { entropyBits, exponentBits, otherBits } = exponents;
  const stored = (8 * info.storedLength) / count;
  // The figures of a sample are exact for the sample. They are not estimates for the tensor.
  const of = isComplete(description) ? "" : " of the sample";
  const part = (label: string, value: number, digits = 2) => element("div", {}, element("dt", {}, label), element("dd", {}, dataValue(value, value.toFixed(digits))));
  return element(
    "dl",
    { class: "bits", "aria-label": "Bits per value" },
    part(`Exponent entropy${of} (of ${exponentBits} bits)`, entropyBits),
    part("Sign and mantissa", otherBits, 0),
    part(`Ideal bits per weight${of}`, entropyBits + otherBits),
    part(info.aliasOf === undefined ? "Actual bits per weight" : "Actual bits per weight (tied)", stored),
  );
}
