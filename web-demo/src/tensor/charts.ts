/** The charts of one tensor. */

import type { TensorInfo } from "zstn";
import type { Description } from "../engine/protocol.js";
import { element } from "../page/element.js";
import { formatCount, formatShare, formatValue } from "../page/format.js";
import { Chart, short } from "./chart.js";
import { bitsLine } from "./figures.js";

export function charts(description: Description, info: TensorInfo): HTMLElement[] {
  const cards = [histogram(description), magnitudes(description)];
  if (description.exponents) cards.push(exponents(description, info));
  if (description.rows > 1) cards.push(norms("Row norms", "row", description.rowNorms));
  if (description.columns > 1) cards.push(norms(description.rowsRead < description.rows ? "Column norms, of the sampled rows" : "Column norms", "column", description.columnNorms));
  return cards;
}

function card(title: string, chart: Chart, note?: string, extra?: HTMLElement, below?: HTMLElement): HTMLElement {
  return element("section", { class: "card chart-card" }, element("div", { class: "card-head" }, element("h3", {}, title), extra), chart.node, note !== undefined && element("p", { class: "quiet" }, note), below);
}

/** Returns a checkbox for a logarithmic axis. */
function logBox(chart: Chart, log = false): HTMLElement {
  const box = element("input", { type: "checkbox", checked: log });
  box.addEventListener("change", () => (chart.log = box.checked));
  return element("label", { class: "tick" }, box, "log");
}

function histogram({ histogram: { edges, counts, outside }, count }: Description): HTMLElement {
  const half = edges.length > 1 ? (edges[1]! - edges[0]!) / 2 : 0;
  const x = edges.map((edge) => edge + half);
  const label = `Histogram of the values, from ${formatValue(edges[0] ?? 0)} to ${formatValue((edges.at(-1) ?? 0) + 2 * half)}`;
  const chart = new Chart({ x, y: counts }, { label, bars: true });
  const note = outside >= 1 ? `${formatShare(outside / count)} of values are outside this range.` : undefined;
  return card("Values", chart, note, logBox(chart));
}

function magnitudes({ magnitudes: { edges, counts }, zeros, count }: Description): HTMLElement {
  const chart = new Chart({ x: edges, y: counts }, { label: `Histogram of magnitudes, by powers of two from 2^${edges[0]} to 2^${edges.at(-1)}`, bars: true, log: true, stroke: "single", formatX: power });
  return card("Magnitudes", chart, zeros > 0 ? `Zeros (${formatShare(zeros / count)}) not shown.` : undefined, logBox(chart, true));
}

function exponents(description: Description, info: TensorInfo): HTMLElement {
  const { first, counts, entropyBits, exponentBits } = description.exponents!;
  const chart = new Chart({ x: Array.from(counts, (_, i) => first + i), y: counts }, { label: `Histogram of the stored exponents: ${formatCount(counts.filter((n) => n > 0).length)} of ${2 ** exponentBits} occur, ${entropyBits.toFixed(2)} bits of entropy`, bars: true, stroke: "double", formatX: power });
  return card("Exponents", chart, undefined, logBox(chart), bitsLine(description, info));
}

function norms(title: string, what: string, { positions, values }: Description["rowNorms"]): HTMLElement {
  const chart = new Chart({ x: positions, y: values }, { label: `${title}, ${formatCount(values.length)} points`, formatX: (x) => `${formatCount(Math.round(x))}`, formatY: short });
  return card(title, chart, `by ${what}`);
}

const power = (exponent: number) => (Number.isInteger(exponent) ? `2^${String(exponent).replace("-", "−")}` : "");
