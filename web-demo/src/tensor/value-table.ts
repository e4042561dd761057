/** The table of single values. */

import type { Engine } from "../engine/client.js";
import type { Reference } from "../engine/protocol.js";
import { button, element } from "../page/element.js";
import { formatCount, formatValue } from "../page/format.js";
import { showError } from "../page/notice.js";
import type { Activities } from "../network/activity.js";

const ROWS = 12;

export interface ValueTableOptions {
  readonly engine: Engine;
  readonly activities: Activities;
  readonly of: Reference;
  readonly minus?: Reference | undefined;
  readonly rows: number;
  readonly columns: number;
  readonly count: number;
  readonly signal: AbortSignal;
}

export class ValueTable {
  readonly node: HTMLElement;
  readonly #options: ValueTableOptions;
  readonly #table = element("table", { class: "values" });
  readonly #row: HTMLInputElement;
  readonly #column: HTMLInputElement;
  #reading: AbortController | undefined;

  constructor(options: ValueTableOptions) {
    this.#options = options;
    this.#row = position("Row", options.rows, () => this.#show());
    this.#column = position("Column", options.columns, () => this.#show());
    const step = (label: string, input: HTMLInputElement, by: () => number) => button(label, () => this.go(input === this.#row ? this.#row.valueAsNumber + by() : this.#row.valueAsNumber, input === this.#column ? this.#column.valueAsNumber + by() : this.#column.valueAsNumber), { class: "button small" });
    const places = element(
      "div",
      { class: "places" },
      element("label", {}, "Row", this.#row),
      step("Previous rows", this.#row, () => -ROWS),
      step("Next rows", this.#row, () => ROWS),
      element("label", {}, "Column", this.#column),
      step("Previous columns", this.#column, () => -this.#width),
      step("Next columns", this.#column, () => this.#width),
    );
    const scroll = element("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Values" }, this.#table);
    this.node = element("section", { class: "card wide" }, element("div", { class: "card-head" }, element("h2", {}, "Values"), places), scroll);
  }

  /** Shows the values from a row and a column on. */
  go(row: number, column: number): void {
    this.#row.value = String(clamp(row, this.#options.rows));
    this.#column.value = String(clamp(column, this.#options.columns));
    this.#show();
  }

  get #width(): number {
    return this.node.clientWidth < 620 ? 4 : this.node.clientWidth < 900 ? 8 : 10;
  }

  #show(): void {
    void this.#load(clamp(this.#row.valueAsNumber, this.#options.rows), clamp(this.#column.valueAsNumber, this.#options.columns));
  }

  async #load(row: number, column: number): Promise<void> {
    const { engine, activities, of, minus, signal } = this.#options;
    this.#reading?.abort();
    const own = new AbortController();
    this.#reading = own;
    const asked = { rowBegin: row, rowEnd: row + ROWS, columnBegin: column, columnEnd: column + this.#width };
    try {
      const either = AbortSignal.any([own.signal, signal]);
      const { area, values } = await activities.run("Values", (options) => engine.call("values", { of, minus, area: asked }, options), either);
      this.#fill(area, values);
    } catch (error) {
      if (!own.signal.aborted && !signal.aborted) showError(error);
    }
  }

  #fill({ rowBegin, rowEnd, columnBegin, columnEnd }: { rowBegin: number; rowEnd: number; columnBegin: number; columnEnd: number }, values: Float64Array): void {
    const width = columnEnd - columnBegin;
    const largest = values.reduce((most, value) => (Number.isFinite(value) ? Math.max(most, Math.abs(value)) : most), Number.MIN_VALUE);
    const head = element("tr", {}, element("td", {}), ...Array.from({ length: width }, (_, i) => element("th", { scope: "col" }, formatCount(columnBegin + i))));
    const rows = Array.from({ length: rowEnd - rowBegin }, (_, y) => {
      const row = rowBegin + y;
      const cells = Array.from({ length: width }, (_, x) => {
        if (row * this.#options.columns + columnBegin + x >= this.#options.count) return element("td", { class: "beyond" });
        const value = values[y * width + x]!;
        const cell = element("td", { class: value < 0 ? "negative" : "positive" }, formatValue(value, 3));
        cell.style.setProperty("--strength", `${(Number.isFinite(value) ? (Math.abs(value) / largest) * 42 : 60).toFixed(1)}%`);
        return cell;
      });
      return element("tr", {}, element("th", { scope: "row" }, formatCount(row)), ...cells);
    });
    this.#table.replaceChildren(element("caption", { class: "unseen" }, `Values from row ${rowBegin} and column ${columnBegin} on`), element("thead", {}, head), element("tbody", {}, ...rows));
  }
}

function position(label: string, size: number, onChange: () => void): HTMLInputElement {
  const input = element("input", { type: "number", min: "0", max: String(Math.max(0, size - 1)), value: "0", "aria-label": label });
  input.addEventListener("change", onChange);
  return input;
}

const clamp = (value: number, size: number) => Math.max(0, Math.min(size - 1, Math.floor(value || 0)));
