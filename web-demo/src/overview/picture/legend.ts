/** The legend of a picture: the colours of its scale, with numbers. */

import { element } from "../../page/element.js";
import type { Metric } from "./metric.js";
import type { Scale } from "./scale.js";

/** Returns a legend. `notes` explain the marks other than colours. */
export function legend({ label, palette, format }: Metric, { ticks, isExceeded, isUndercut }: Scale, notes: readonly (readonly [kind: string, text: string])[] = []): HTMLElement {
  const marks = notes.map(([kind, text]) => element("span", { class: "mark-note" }, element("i", { class: kind }), text));
  if (ticks.length === 0) return element("div", { class: "picture-legend" }, ...marks);
  const numbers = element("span", { class: "ticks" }, ...ticks.map((tick, i) => element("span", {}, `${i === 0 && isUndercut ? "≤ " : i > 0 && i === ticks.length - 1 && isExceeded ? "≥ " : ""}${format(tick)}`)));
  const bar = element("span", { class: "scale" }, element("i", { class: `ramp ${palette}`, role: "img", "aria-label": `Colours: ${label}, from ${format(ticks[0]!)} to ${format(ticks.at(-1)!)}` }), numbers);
  return element("div", { class: "picture-legend" }, element("span", { class: "quiet" }, capitalised(label)), bar, ...marks);
}

export const capitalised = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
