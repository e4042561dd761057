/** The legend of a heatmap. */

import type { Raster, Shading } from "../engine/protocol.js";
import { element } from "../page/element.js";
import { formatCount, formatValue } from "../page/format.js";

type LegendData = Pick<Raster, "limit" | "isExceeded" | "hasNonFinite" | "hasFinite" | "isComplete" | "bandRows">;

/** Returns the numbers at the two ends of the colour scale. */
export function scaleEnds({ limit, isExceeded }: Pick<Raster, "limit" | "isExceeded">, shading: Shading): [string, string] {
  const end = formatValue(limit, 2);
  if (shading === "rms") return ["0", isExceeded ? `≥ ${end}` : end];
  return isExceeded ? [`≤ −${end}`, `≥ ${end}`] : [`−${end}`, end];
}

export const SHADING_NAMES: Readonly<Record<Shading, string>> = { mean: "Mean value", rms: "RMS magnitude" };

/** Returns the colour scale with its numbers, and keys that explain the other marks. */
export function legend(data: LegendData, shading: Shading): HTMLElement[] {
  const [low, high] = scaleEnds(data, shading);
  const scale = element("span", { class: "scale" }, element("span", { class: "shading-name" }, SHADING_NAMES[shading]), low, element("i", { class: shading, "aria-hidden": "true" }), high);
  const marks: HTMLElement[] = data.hasFinite || !data.hasNonFinite ? [scale] : [];
  if (data.bandRows !== undefined) marks.push(element("span", { class: "key" }, element("i", { class: "banded", "aria-hidden": "true" }), `not read: bands of ${formatCount(data.bandRows)} rows, from the file's statistics`));
  else if (!data.isComplete) marks.push(element("span", { class: "key" }, element("i", { class: "unread", "aria-hidden": "true" }), "not read"));
  if (data.hasNonFinite) marks.push(element("span", { class: "key" }, element("i", { class: "non-finite", "aria-hidden": "true" }), "NaN or ∞"));
  return marks;
}
