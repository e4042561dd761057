/** The first values of a tensor, tinted by sign and size. */

import type { Tensor } from "zstn";
import { element } from "./element.js";
import { formatCount, formatValue } from "./format.js";
import { isNumeric, numbersOf } from "./statistics.js";

/** Enough to see the character of a tensor, few enough to look at. */
const VALUES_SHOWN = 64;

export function firstValues(tensor: Tensor): HTMLElement {
  const shown = Math.min(VALUES_SHOWN, tensor.data.length);
  const label = isNumeric(tensor) ? "values" : "stored bytes";
  const heading = tensor.data.length > shown ? `First ${shown} of ${formatCount(tensor.data.length)} ${label}` : `All ${shown} ${label}`;
  const cells = isNumeric(tensor) ? numberCells(tensor, shown) : byteCells(tensor, shown);
  return element("section", { class: "values" }, element("h3", {}, heading), element("ol", { class: "value-grid" }, ...cells));
}

function numberCells(tensor: Tensor, count: number): HTMLElement[] {
  const values = Array.from(numbersOf(tensor, 0, count));
  const largest = Math.max(...values.map((value) => (Number.isFinite(value) ? Math.abs(value) : 0)), Number.MIN_VALUE);
  return values.map((value) => {
    const cell = element("li", { class: value < 0 ? "negative" : "positive" }, formatValue(value, 3));
    const strength = Number.isFinite(value) ? Math.abs(value) / largest : 1;
    cell.style.setProperty("--strength", `${(strength * 42).toFixed(1)}%`);
    return cell;
  });
}

function byteCells(tensor: Tensor, count: number): HTMLElement[] {
  return Array.from(tensor.bytes.subarray(0, count), (byte) => element("li", {}, byte.toString(16).padStart(2, "0")));
}
