/** The statistics of a tensor. */

import type { TensorInfo } from "zstn";
import type { Description } from "../engine/protocol.js";
import { element, dataValue } from "../page/element.js";
import { formatCount, formatShare, formatValue } from "../page/format.js";

export function figures(description: Description): HTMLElement {
  const { count, min, max, mean, standardDeviation, norm, zeros, nans, infinities, zeroRows, rowsRead, difference } = description;
  const entries: [string, number, string][] = [
    ["min", min, formatValue(min)],
    ["max", max, formatValue(max)],
    ["mean", mean, formatValue(mean)],
    ["std. dev.", standardDeviation, formatValue(standardDeviation)],
    ["norm", norm, formatValue(norm)],
    ["zeros", zeros / Math.max(1, count), formatShare(zeros / Math.max(1, count))],
  ];
  if (difference) {
    entries.push(["changed", difference.changed, formatShare(difference.changed / Math.max(1, count))]);
    entries.push(["relative norm", difference.relativeNorm, formatShare(difference.relativeNorm)]);
  }
  const odd = [
    zeroRows > 0 && rowsRead > 1 && `${formatCount(zeroRows)} of ${formatCount(rowsRead)} rows are all zeros`,
    nans > 0 && `${formatCount(nans)} NaN`,
    infinities > 0 && `${formatCount(infinities)} infinite`,
  ].filter((text) => text !== false);
  const list = element("dl", { class: "statistics" }, ...entries.map(([label, value, text]) => element("div", {}, element("dt", {}, label), element("dd", {}, dataValue(value, text)))));
  return element("div", {}, list, odd.length > 0 && element("p", { class: "odd" }, `${odd.join("; ")}.`));
}

/** Returns the entropy of an exponent, and the bits that the file spends on a whole value. */
export function bitsLine({ exponents }: Description, info: TensorInfo): HTMLElement | undefined {
  const count = info.shape.reduce((product, size) => product * size, 1);
  if (!exponents || count === 0) return undefined;
  const { entropyBits, exponentBits, otherBits } = exponents;
  const stored = (8 * info.storedLength) / count;
  const part = (label: string, value: number, digits = 2) => element("div", {}, element("dt", {}, label), element("dd", {}, dataValue(value, value.toFixed(digits))));
  return element(
    "dl",
    { class: "bits", "aria-label": "Bits per value" },
    part(`Exponent entropy (of ${exponentBits} bits)`, entropyBits),
    part("Sign and mantissa", otherBits, 0),
    part("Entropy bound, exponent only", entropyBits + otherBits),
    part(info.aliasOf === undefined ? "Actual bits per weight" : "Actual bits per weight (tied)", stored),
  );
}
