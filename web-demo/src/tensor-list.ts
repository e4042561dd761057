/** The list of tensors. Only the rows in view exist, so that ten thousand cost no more than thirty. */

import type { TensorInfo } from "zstn";
import { element } from "./element.js";
import { formatCount, plural } from "./format.js";
import { arrange, nextOrder } from "./order.js";
import type { Column, Order } from "./order.js";
import { rowCells } from "./tensor-row.js";

const COLUMNS: { column: Column; label: string }[] = [
  { column: "name", label: "Name" },
  { column: "dtype", label: "Type" },
  { column: "shape", label: "Shape" },
  { column: "byteLength", label: "Size" },
  { column: "storedLength", label: "Stored" },
  { column: "ratio", label: "Ratio" },
];

/** Rows kept above and below the view, so that scrolling shows no blanks. */
const SPARE_ROWS = 8;

export class TensorList {
  readonly #tensors: TensorInfo[];
  readonly #onPick: (tensor: TensorInfo) => void;
  readonly #filter = element("input", { type: "search", id: "filter", placeholder: "Filter by name, type or shape", autocomplete: "off", spellcheck: false });
  readonly #count = element("span", { class: "count" });
  readonly #grid = element("div", { class: "grid", role: "grid", tabIndex: 0, "aria-label": "Tensors of the file" });
  readonly #rows = element("div", { class: "rows", role: "rowgroup" });
  readonly #empty = element("p", { class: "nothing", hidden: true });
  readonly #headings = new Map<Column, HTMLElement>();
  #listed: TensorInfo[] = [];
  #order: Order;
  /** Position of the row the keyboard is on. */
  #active = 0;
  #selected: TensorInfo | undefined;
  #drawn: [number, number] = [0, 0];
  readonly #stop = new AbortController();

  constructor(host: HTMLElement, tensors: TensorInfo[], onPick: (tensor: TensorInfo) => void) {
    this.#tensors = tensors;
    this.#onPick = onPick;
    const label = element("label", { class: "unseen", htmlFor: "filter" }, "Filter tensors");
    this.#grid.append(this.#header(), this.#rows, this.#empty);
    host.replaceChildren(element("div", { class: "tools" }, label, this.#filter, this.#count), this.#grid);
    this.#filter.addEventListener("input", () => this.#arrange());
    this.#filter.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") this.#grid.focus();
    });
    this.#grid.addEventListener("keydown", (event) => this.#onKey(event));
    this.#rows.addEventListener("click", (event) => this.#onClick(event));
    const { signal } = this.#stop;
    addEventListener("scroll", () => this.#drawIfMoved(), { passive: true, signal });
    addEventListener("resize", () => this.#draw(), { signal });
    this.#arrange();
  }

  /** The list is about to be replaced. */
  close(): void {
    this.#stop.abort();
  }

  focusFilter(): void {
    this.#filter.focus();
    this.#filter.select();
  }

  /** Marks the tensor shown in the panel. */
  select(tensor: TensorInfo | undefined): void {
    this.#selected = tensor;
    const position = tensor ? this.#listed.indexOf(tensor) : -1;
    if (position >= 0) this.#active = position;
    this.#draw();
  }

  #header(): HTMLElement {
    const header = element("div", { class: "row header", role: "row", "aria-rowindex": 1 });
    for (const { column, label } of COLUMNS) {
      const button = element("button", { type: "button" }, label);
      button.addEventListener("click", () => {
        this.#order = nextOrder(this.#order, column);
        this.#arrange();
      });
      const heading = element("span", { class: `cell ${column}`, role: "columnheader" }, button);
      this.#headings.set(column, heading);
      header.append(heading);
    }
    return header;
  }

  #arrange(): void {
    this.#listed = arrange(this.#tensors, this.#filter.value, this.#order);
    this.#active = Math.max(0, this.#selected ? this.#listed.indexOf(this.#selected) : 0);
    for (const [column, heading] of this.#headings) {
      const sorted = this.#order?.column === column ? (this.#order.descending ? "descending" : "ascending") : "none";
      heading.setAttribute("aria-sort", sorted);
    }
    const all = this.#listed.length === this.#tensors.length;
    this.#count.textContent = all ? plural(this.#tensors.length, "tensor") : `${formatCount(this.#listed.length)} of ${plural(this.#tensors.length, "tensor")}`;
    this.#empty.hidden = this.#listed.length > 0;
    this.#empty.textContent = this.#tensors.length === 0 ? "This file holds no tensors." : `No tensor matches “${this.#filter.value}”.`;
    this.#grid.setAttribute("aria-rowcount", String(this.#listed.length + 1));
    this.#draw();
  }

  get #rowHeight(): number {
    return Number.parseFloat(getComputedStyle(this.#grid).getPropertyValue("--row-height"));
  }

  /** The rows in view and the spare ones: first, and one behind the last. */
  #view(height: number): [number, number] {
    const top = this.#rows.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(-top / height) - SPARE_ROWS);
    const last = Math.min(this.#listed.length, Math.ceil((innerHeight - top) / height) + SPARE_ROWS);
    return [first, last];
  }

  #drawIfMoved(): void {
    const [first, last] = this.#view(this.#rowHeight);
    if (first !== this.#drawn[0] || last !== this.#drawn[1]) this.#draw();
  }

  /** Makes the rows in view, and only those. */
  #draw(): void {
    const height = this.#rowHeight;
    this.#rows.style.height = `${this.#listed.length * height}px`;
    const [first, last] = this.#view(height);
    this.#drawn = [first, last];
    const nodes: HTMLElement[] = [];
    for (let position = first; position < last; position++) nodes.push(this.#row(position, height));
    this.#rows.replaceChildren(...nodes);
    const activeInView = this.#active >= first && this.#active < last;
    if (activeInView) this.#grid.setAttribute("aria-activedescendant", `row-${this.#active}`);
    else this.#grid.removeAttribute("aria-activedescendant");
  }

  #row(position: number, height: number): HTMLElement {
    const tensor = this.#listed[position]!;
    const row = element("div", { class: "row", role: "row", id: `row-${position}`, "aria-rowindex": position + 2, "aria-selected": String(tensor === this.#selected) });
    row.dataset["position"] = String(position);
    row.style.transform = `translateY(${position * height}px)`;
    if (position === this.#active) row.classList.add("active");
    row.append(...rowCells(tensor));
    return row;
  }

  #onClick(event: MouseEvent): void {
    const row = (event.target as Element).closest<HTMLElement>("[data-position]");
    if (row) this.#pick(Number(row.dataset["position"]));
  }

  #pick(position: number): void {
    const tensor = this.#listed[position];
    if (!tensor) return;
    this.#active = position;
    this.#onPick(tensor);
  }

  #onKey(event: KeyboardEvent): void {
    if (event.target !== this.#grid || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor((innerHeight * 0.7) / this.#rowHeight));
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step !== undefined) {
      this.#active = Math.max(0, Math.min(this.#listed.length - 1, this.#active + step));
      this.#reveal();
    } else if (event.key === "Enter" || event.key === " ") {
      this.#pick(this.#active);
    } else {
      return;
    }
    event.preventDefault();
  }

  /** Scrolls the page just as far as the active row needs. */
  #reveal(): void {
    const height = this.#rowHeight;
    const top = this.#rows.getBoundingClientRect().top + this.#active * height;
    const margin = 2 * height; // the column heads stick to the top of the page
    if (top < margin) scrollBy({ top: top - margin });
    else if (top + height > innerHeight - 8) scrollBy({ top: top + height + 8 - innerHeight });
    this.#draw();
  }
}
