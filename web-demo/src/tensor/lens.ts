/** The value lens: the values around a pinned cell, in a small table over the heatmap. */

import type { Area, Values } from "../engine/protocol.js";
import { button, element } from "../page/element.js";
import { formatCount, formatValue } from "../page/format.js";

/** The number of cells that the lens shows on each side of the pinned cell. */
const REACH = 4;
const NARROW_REACH = 1;
const NARROW_PIXELS = 560;
/** The distance between the lens and its cell, in CSS pixels. */
const DISTANCE = 16;

export class Lens {
  readonly nodes: readonly HTMLElement[];
  readonly #mark = element("i", { class: "pin-mark" });
  readonly #box: HTMLElement;
  readonly #title = element("b", {});
  readonly #table = element("table", { class: "lens-values" });

  constructor(onClose: () => void) {
    const close = button("×", onClose, { class: "lens-close", "aria-label": "Close the value lens" });
    this.#box = element("div", { class: "lens", role: "region", "aria-label": "Values around the pinned cell" }, element("div", { class: "lens-head" }, this.#title, close), this.#table);
    this.nodes = [this.#mark, this.#box];
    this.hide();
  }

  /** Returns the cells that the lens shows in a heatmap of this width, in CSS pixels. */
  static areaAround(row: number, column: number, rows: number, columns: number, width: number): Area {
    const across = width < NARROW_PIXELS ? NARROW_REACH : REACH;
    const range = (at: number, reach: number, size: number): [number, number] => {
      const begin = Math.max(0, Math.min(at - reach, size - 2 * reach - 1));
      return [begin, Math.min(size, begin + 2 * reach + 1)];
    };
    const [[rowBegin, rowEnd], [columnBegin, columnEnd]] = [range(row, REACH, rows), range(column, across, columns)];
    return { rowBegin, rowEnd, columnBegin, columnEnd };
  }

  fill(row: number, column: number, { area, values }: Values): void {
    const width = area.columnEnd - area.columnBegin;
    const largest = values.reduce((most, value) => (Number.isFinite(value) ? Math.max(most, Math.abs(value)) : most), Number.MIN_VALUE);
    const value = values[(row - area.rowBegin) * width + column - area.columnBegin]!;
    this.#title.textContent = `row ${formatCount(row)} · col ${formatCount(column)} · ${formatValue(value)}`;
    const head = element("tr", {}, element("td", {}), ...Array.from({ length: width }, (_, i) => element("th", { scope: "col" }, formatCount(area.columnBegin + i))));
    const rows = Array.from({ length: area.rowEnd - area.rowBegin }, (_, y) => {
      const cells = Array.from({ length: width }, (_, x) => {
        const value = values[y * width + x]!;
        const isPinned = area.rowBegin + y === row && area.columnBegin + x === column;
        const cell = element("td", { class: `${value < 0 ? "negative" : "positive"}${isPinned ? " pinned" : ""}` }, formatValue(value, 2));
        cell.style.setProperty("--strength", `${(Number.isFinite(value) ? (Math.abs(value) / largest) * 42 : 60).toFixed(1)}%`);
        return cell;
      });
      return element("tr", {}, element("th", { scope: "row" }, formatCount(area.rowBegin + y)), ...cells);
    });
    this.#table.replaceChildren(element("thead", {}, head), element("tbody", {}, ...rows));
  }

  /** Places the lens next to its cell, the rectangle at (x, y), in a box of this size. All lengths are in CSS pixels. */
  place(x: number, y: number, cellWidth: number, cellHeight: number, width: number, height: number): void {
    const isVisible = x + cellWidth >= 0 && x <= width && y + cellHeight >= 0 && y <= height;
    for (const node of this.nodes) node.hidden = !isVisible;
    if (!isVisible) return;
    const [markWidth, markHeight] = [Math.max(7, cellWidth), Math.max(7, cellHeight)];
    Object.assign(this.#mark.style, { left: `${x + (cellWidth - markWidth) / 2}px`, top: `${y + (cellHeight - markHeight) / 2}px`, width: `${markWidth}px`, height: `${markHeight}px` });
    const { offsetWidth, offsetHeight } = this.#box;
    const right = x + cellWidth + DISTANCE;
    const left = right + offsetWidth <= width ? right : x - DISTANCE - offsetWidth;
    Object.assign(this.#box.style, { left: `${Math.max(0, Math.min(width - offsetWidth, left))}px`, top: `${Math.max(0, Math.min(height - offsetHeight, y + cellHeight / 2 - offsetHeight / 2))}px` });
  }

  hide(): void {
    for (const node of this.nodes) node.hidden = true;
  }
}
