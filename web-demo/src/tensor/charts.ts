/** The charts of one tensor. */

import type { TensorInfo } from "zstn";
import type { Description } from "../engine/protocol.js";
import { element } from "../page/element.js";
import { formatCount, formatShare, formatValue } from "../page/format.js";
import { isBlockType } from "../tree/dtype-family.js";
import { Chart } from "./chart.js";
import { bitsLine, isComplete } from "./figures.js";

/** If more than this fraction of the values is zero, the histogram omits zeros at first: their bar would dwarf the others. */
const MANY_ZEROS = 0.2;

/** Returns the cards of all charts, without the histogram of the values if `isOverlaid` is set. */
export function charts(description: Description, info: TensorInfo, signal: AbortSignal, isOverlaid = false): HTMLElement[] {
  const cards = isOverlaid ? [magnitudes(description, signal)] : [histogram(description, signal), magnitudes(description, signal)];
  // Quantised blocks store codes and scales, so the exponents of their values are not stored.
  if (description.exponents && !isBlockType(info.format)) cards.push(exponents(description, info, signal));
  return cards;
}

function card(title: string, chart: Chart, note?: string, extra?: readonly HTMLElement[], below?: HTMLElement): HTMLElement {
  return element("section", { class: "card chart-card" }, element("div", { class: "card-head" }, element("h3", {}, title), element("div", { class: "ticks" }, ...(extra ?? []))), chart.node, note !== undefined && element("p", { class: "quiet" }, note), below);
}

function tick(label: string, checked: boolean, onChange: (checked: boolean) => void): HTMLElement {
  const box = element("input", { type: "checkbox", checked });
  box.addEventListener("change", () => onChange(box.checked));
  return element("label", { class: "tick" }, box, label);
}

/** Returns a checkbox for a logarithmic axis. */
const logBox = (chart: Chart, log = false): HTMLElement => tick("log", log, (checked) => (chart.log = checked));

/** Returns a note that the counts are from a sample; empty if all values were read. */
const sampleNote = (description: Description): string => (isComplete(description) ? "" : "Counts are of the sampled values.");

function histogram(description: Description, signal: AbortSignal): HTMLElement {
  const { histogram: { edges, counts, outside }, count, zeros, difference } = description;
  const width = edges.length > 1 ? edges[1]! - edges[0]! : 0;
  const x = edges.map((edge) => edge + width / 2);
  const label = `Histogram of the values, from ${formatValue(edges[0] ?? 0)} to ${formatValue((edges.at(-1) ?? 0) + width)}`;
  const zeroBin = Math.floor((0 - (edges[0] ?? 0)) / width);
  const withZeros = counts.map((other, bin) => other + (bin === zeroBin ? zeros : 0));
  const leaveOut = difference !== undefined || zeros > MANY_ZEROS * count;
  const canShow = zeros > 0 && zeroBin >= 0 && zeroBin < counts.length;
  const chart = new Chart({ x, y: leaveOut || !canShow ? counts : withZeros }, { signal, label, bars: true });
  const note = element("p", { class: "quiet" });
  const say = (shown: boolean) => {
    const left = zeros > 0 && !shown && `${formatCount(zeros)} ${zeros === 1 ? "zero" : "zeros"} (${formatShare(zeros / count)}) not shown.`;
    const beyond = outside >= 1 && `${formatShare(outside / count)} of values are outside this range.`;
    note.textContent = [left, beyond, sampleNote(description)].filter(Boolean).join(" ");
  };
  say(canShow && !leaveOut);
  const zeroBox = tick("zeros", !leaveOut, (shown) => {
    chart.data = { x, y: shown ? withZeros : counts };
    say(shown);
  });
  return card("Values", chart, undefined, [...(canShow ? [zeroBox] : []), logBox(chart)], note);
}

function magnitudes(description: Description, signal: AbortSignal): HTMLElement {
  const { magnitudes: { edges, counts }, zeros, count } = description;
  const chart = new Chart({ x: edges, y: counts }, { signal, label: `Histogram of magnitudes, by powers of two from ${power(edges[0] ?? 0)} to ${power(edges.at(-1) ?? 0)}`, bars: true, log: true, stroke: "single", formatX: power });
  const note = [zeros > 0 && `Zeros (${formatShare(zeros / count)}) not shown.`, sampleNote(description)].filter(Boolean).join(" ");
  return card("Magnitudes", chart, note || undefined, [logBox(chart, true)]);
}

function exponents(description: Description, info: TensorInfo, signal: AbortSignal): HTMLElement {
  const { first, counts, entropyBits, exponentBits } = description.exponents!;
  const chart = new Chart({ x: Array.from(counts, (_, i) => first + i), y: counts }, { signal, label: `Histogram of the stored exponents: ${formatCount(counts.filter((n) => n > 0).length)} of ${2 ** exponentBits} occur, ${entropyBits.toFixed(2)} bits of entropy`, bars: true, stroke: "double", formatX: power });
  return card("Exponents", chart, sampleNote(description) || undefined, [logBox(chart)], bitsLine(description, info));
}

/** Returns one card with the value distributions of two tensors, as densities without zeros. */
export function overlay(first: Description, second: Description, names: readonly [string, string], signal: AbortSignal): HTMLElement {
  const density = ({ histogram: { edges, counts }, count, zeros }: Description) => {
    const width = edges.length > 1 ? edges[1]! - edges[0]! : 1;
    return { x: Array.from(edges, (edge) => edge + width / 2), y: Array.from(counts, (n) => n / Math.max(1, count - zeros) / width) };
  };
  const chart = new Chart(density(first), { signal, label: `Values of ${names[0]} and of ${names[1]}, as densities`, other: density(second), otherStroke: "double" });
  const key = (name: string, tone: string) => element("span", { class: "key" }, element("i", { class: tone, "aria-hidden": "true" }), name);
  const zeros = [first, second].map(({ zeros, count }) => formatShare(zeros / Math.max(1, count)));
  const note = first.zeros + second.zeros > 0 ? `Density of the values without zeros (${zeros.join(" and ")}).` : "Density of the values.";
  return element("section", { class: "card wide chart-card overlay" }, element("div", { class: "card-head" }, element("h2", {}, "Values of both"), element("p", { class: "legend" }, key(names[0], "first"), key(names[1], "second"))), chart.node, element("p", { class: "quiet" }, note));
}

const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const power = (exponent: number) => (Number.isInteger(exponent) ? `2${exponent < 0 ? "⁻" : ""}${[...String(Math.abs(exponent))].map((digit) => SUPERSCRIPTS[Number(digit)]).join("")}` : "");
