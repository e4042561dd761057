/** A histogram as a picture. */

import { formatCount, formatValue } from "./format.js";
import type { Histogram } from "./statistics.js";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 100;

export function histogramPicture(histogram: Histogram): Element {
  const { bins, low, high } = histogram;
  const picture = make("svg", { class: "histogram", viewBox: `0 0 ${bins.length} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
  const most = bins.reduce((a, b) => Math.max(a, b), 1);
  picture.setAttribute("aria-label", `Distribution of the values from ${formatValue(low)} to ${formatValue(high)}`);
  for (const [i, count] of bins.entries()) {
    if (count === 0) continue;
    const height = Math.max(1, (count / most) * HEIGHT);
    const bar = make("rect", { x: i + 0.08, y: HEIGHT - height, width: 0.84, height });
    const from = low + ((high - low) * i) / bins.length;
    const title = make("title", {});
    title.textContent = `${formatCount(count)} values from ${formatValue(from)}`;
    bar.append(title);
    picture.append(bar);
  }
  if (low < 0 && high > 0) {
    const zero = (-low / (high - low)) * bins.length;
    picture.append(make("line", { x1: zero, x2: zero, y1: 0, y2: HEIGHT, class: "zero" }));
  }
  return picture;
}

function make(tag: string, attributes: Record<string, string | number>): Element {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  return node;
}
