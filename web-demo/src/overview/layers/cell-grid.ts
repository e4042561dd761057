/** A grid of cells with headings, and its keyboard navigation. */

import { element } from "../../page/element.js";
import type { Column } from "./stacks.js";

/** Rows lower than this, in pixels, have no gaps. */
const DENSE_PX = 11;

export class CellGrid {
  readonly node: HTMLElement;
  readonly #rows: (HTMLElement | undefined)[][] = [];
  /** The only cell that the Tab key reaches. */
  #current: HTMLElement | undefined;

  constructor(columns: readonly Column[], label: string) {
    const headings = columns.map(({ kind }) => element("span", { role: "columnheader", title: kind }, element("span", {}, ...breakable(kind))));
    const head = element("div", { role: "row", class: "grid-head" }, element("span", { role: "columnheader" }, element("span", { class: "unseen" }, "Layer")), ...headings);
    this.node = element("div", { class: "cell-grid", role: "grid", "aria-label": label }, head);
    this.node.classList.toggle("many", columns.length > 8);
    this.node.style.setProperty("--count", String(columns.length));
    this.node.style.setProperty("--columns", `repeat(${columns.length}, minmax(22px, 1fr))`);
    this.node.addEventListener("keydown", (event) => this.#onKey(event));
  }

  /** Sets the height of all rows, in pixels. Low rows touch, since gaps would be as high as the rows. */
  setRowHeight(height: number): void {
    this.node.style.setProperty("--cell-height", `${height}px`);
    this.node.classList.toggle("dense", height < DENSE_PX);
  }

  /** Adds a row and returns the nodes of its cells. `isLabelled` controls whether its name is visible. */
  addRow(name: string, isLabelled: boolean, cells: readonly unknown[]): (HTMLElement | undefined)[] {
    const nodes = cells.map((cell) => (cell === undefined ? undefined : element("span", { class: "cell", role: "gridcell", tabIndex: -1 })));
    const header = element("span", { role: "rowheader", "aria-label": `Layer ${name}` }, isLabelled ? name : "");
    this.node.append(element("div", { role: "row" }, header, ...nodes.map((node) => node ?? element("span", { role: "gridcell", class: "absent" }))));
    this.#rows.push(nodes);
    if (!this.#current) this.#move(nodes.find((node) => node !== undefined), false);
    return nodes;
  }

  #move(node: HTMLElement | undefined, focus: boolean): void {
    if (!node) return;
    if (this.#current) this.#current.tabIndex = -1;
    this.#current = node;
    node.tabIndex = 0;
    if (focus) node.focus();
  }

  #onKey(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const row = this.#rows.findIndex((nodes) => nodes.includes(event.target as HTMLElement));
    if (row < 0) return;
    const column = this.#rows[row]!.indexOf(event.target as HTMLElement);
    if (event.key === "Enter" || event.key === " ") (event.target as HTMLElement).click();
    else if (event.key in STEPS) this.#step(row, column, STEPS[event.key]!);
    else if (event.key === "Home") this.#move(this.#rows[row]!.find((node) => node !== undefined), true);
    else if (event.key === "End") this.#move(this.#rows[row]!.findLast((node) => node !== undefined), true);
    else return;
    event.preventDefault();
  }

  /** Moves to the next cell in a direction, skipping absent cells. */
  #step(row: number, column: number, [down, right]: readonly [number, number]): void {
    for (let [y, x] = [row + down, column + right]; this.#rows[y] && x >= 0 && x < this.#rows[y]!.length; y += down, x += right) {
      if (this.#rows[y]![x]) return this.#move(this.#rows[y]![x], true);
    }
  }
}

const STEPS: Readonly<Record<string, readonly [down: number, right: number]>> = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] };

/** Returns a name that may be broken after its dots. */
function breakable(kind: string): (string | HTMLElement)[] {
  return kind.split(".").flatMap((part, i, parts) => (i < parts.length - 1 ? [`${part}.`, element("wbr")] : [part]));
}
