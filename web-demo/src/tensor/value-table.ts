/** The table of single values. */

import type { Engine } from "../engine/client.js";
import type { Area, Reference } from "../engine/protocol.js";
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
  readonly signal: AbortSignal;
}

export class ValueTable {
  readonly node: HTMLElement;
  readonly #options: ValueTableOptions;
  /** True if the tensor is a vector, which is listed in lines of consecutive values. */
  readonly #isVector: boolean;
  readonly #table = element("table", { class: "values" });
  readonly #row: HTMLInputElement;
  readonly #column: HTMLInputElement;
  #reading: AbortController | undefined;

  constructor(options: ValueTableOptions) {
    this.#options = options;
    this.#isVector = options.columns === 1;
    this.#row = position(this.#isVector ? "Index" : "Row", options.rows, () => this.#show());
    this.#column = position("Column", options.columns, () => this.#show());
    const step = (label: string, text: string, input: HTMLInputElement, by: () => number) => button(text, () => this.go(input === this.#row ? this.#row.valueAsNumber + by() : this.#row.valueAsNumber, input === this.#column ? this.#column.valueAsNumber + by() : this.#column.valueAsNumber), { class: "button small", "aria-label": label });
    const rowStep = () => (this.#isVector ? ROWS * this.#width : ROWS);
    const byRow = [
      element("label", {}, this.#isVector ? "Index" : "Row", this.#row),
      step(this.#isVector ? "Previous values" : "Previous rows", "◀", this.#row, () => -rowStep()),
      step(this.#isVector ? "Next values" : "Next rows", "▶", this.#row, rowStep),
    ];
    const byColumn = [
      element("label", {}, "Column", this.#column),
      step("Previous columns", "◀", this.#column, () => -this.#width),
      step("Next columns", "▶", this.#column, () => this.#width),
    ];
    const places = element("div", { class: "places" }, ...byRow, ...(this.#isVector ? [] : byColumn));
    const scroll = element("div", { class: "scroll", tabIndex: 0, role: "group", "aria-label": "Values" }, this.#table);
    this.node = element("section", { class: "card wide" }, element("div", { class: "card-head" }, element("h2", {}, "Values"), places), scroll);
  }

  /** Shows the values that start at a row and a column. */
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
    const width = this.#width;
    const asked = this.#isVector
      ? { rowBegin: row, rowEnd: row + ROWS * width, columnBegin: 0, columnEnd: 1 }
      : { rowBegin: row, rowEnd: row + ROWS, columnBegin: column, columnEnd: column + width };
    try {
      const either = AbortSignal.any([own.signal, signal]);
      const { area, values } = await activities.run("Values", (options) => engine.call("values", { of, minus, area: asked }, options), either);
      this.#fill(area, values, this.#isVector ? width : area.columnEnd - area.columnBegin);
    } catch (error) {
      if (!own.signal.aborted && !signal.aborted) showError(error);
    }
  }

  #fill({ rowBegin, rowEnd, columnBegin }: Area, values: Float64Array, width: number): void {
    const largest = values.reduce((most, value) => (Number.isFinite(value) ? Math.max(most, Math.abs(value)) : most), Number.MIN_VALUE);
    const heads = Array.from({ length: width }, (_, i) => element("th", { scope: "col" }, this.#isVector ? `+${i}` : formatCount(columnBegin + i)));
    const head = element("tr", {}, element("td", {}), ...heads);
    const lines = this.#isVector ? Math.ceil(values.length / width) : rowEnd - rowBegin;
    const rows = Array.from({ length: lines }, (_, y) => {
      const cells = Array.from(values.subarray(y * width, (y + 1) * width), (value) => {
        const cell = element("td", { class: value < 0 ? "negative" : "positive" }, formatValue(value, 3));
        cell.style.setProperty("--strength", `${(Number.isFinite(value) ? (Math.abs(value) / largest) * 42 : 60).toFixed(1)}%`);
        return cell;
      });
      return element("tr", {}, element("th", { scope: "row" }, formatCount(rowBegin + (this.#isVector ? y * width : y))), ...cells);
    });
    const caption = this.#isVector ? `Values from index ${rowBegin} on` : `Values from row ${rowBegin} and column ${columnBegin} on`;
    this.#table.replaceChildren(element("caption", { class: "unseen" }, caption), element("thead", {}, head), element("tbody", {}, ...rows));
  }
}

function position(label: string, size: number, onChange: () => void): HTMLInputElement {
  const input = element("input", { type: "number", min: "0", max: String(Math.max(0, size - 1)), value: "0", "aria-label": label });
  input.addEventListener("change", onChange);
  return input;
}

const clamp = (value: number, size: number) => Math.max(0, Math.min(size - 1, Math.floor(value || 0)));
