/** The tree of tensors with its search. Only the rows in view are in the DOM, so that ten thousand cost no more than thirty. */

import type { TensorInfo } from "zstn";
import { select, element } from "../page/element.js";
import { formatCount, plural } from "../page/format.js";
import { firstOpen, listRows, matching, treeRows } from "./rows.js";
import type { Order, Row } from "./rows.js";
import { treeOf } from "./node.js";
import type { Branch } from "./node.js";
import { rowContent } from "./row.js";

/** Rows kept above and below the view, so that scrolling shows no blanks. */
const SPARE_ROWS = 10;

const ORDERS: readonly (readonly [Order, string])[] = [
  ["tree", "Modules"],
  ["file", "File order"],
  ["name", "Name"],
  ["largest", "Largest first"],
  ["ratio", "Best ratio first"],
];

export class TensorList {
  readonly node: HTMLElement;
  readonly #tensors: readonly TensorInfo[];
  readonly #onPick: (tensor: TensorInfo) => void;
  readonly #filter = element("input", { type: "search", id: "filter", placeholder: "Search names, types, shapes", autocomplete: "off", spellcheck: false, "aria-label": "Search tensors" });
  readonly #count = element("p", { class: "count", role: "status" });
  readonly #view = element("div", { class: "tree", role: "tree", tabIndex: 0, "aria-label": "Tensors of the model" });
  readonly #rowsNode = element("div", { class: "rows", role: "presentation" });
  readonly #empty = element("p", { class: "nothing", hidden: true });
  readonly #root: Branch;
  readonly #open: Set<string>;
  /** Modules closed by the user while search results are shown, which are open by default. */
  readonly #closed = new Set<string>();
  #isFiltered = false;
  #order: Order = "tree";
  #dtype = "";
  #rows: Row[] = [];
  #active = 0;
  #selected: TensorInfo | undefined;
  /** The rows in the DOM, by position, and the height they were placed with. */
  readonly #nodes = new Map<number, HTMLElement>();
  #drawnHeight = 0;

  constructor(tensors: readonly TensorInfo[], onPick: (tensor: TensorInfo) => void) {
    this.#tensors = tensors;
    this.#onPick = onPick;
    this.#root = treeOf(tensors);
    this.#open = firstOpen(this.#root);
    const dtypes = [...new Set(tensors.map(({ dtype }) => dtype))].sort();
    const byDtype = select("Type", [["", "All types"], ...dtypes.map((dtype) => [dtype, dtype] as const)], "", (dtype) => {
      this.#dtype = dtype;
      this.#arrange();
    });
    const byOrder = select("Order", ORDERS, "tree", (order) => {
      this.#order = order as Order;
      this.#arrange();
    });
    this.#view.append(this.#rowsNode, this.#empty);
    this.node = element("div", { class: "list" }, element("div", { class: "tools" }, this.#filter, byDtype, byOrder), this.#count, this.#view);
    this.#filter.addEventListener("input", () => {
      this.#closed.clear();
      this.#arrange();
    });
    this.#filter.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") this.#view.focus();
    });
    this.#view.addEventListener("keydown", (event) => this.#onKey(event));
    this.#rowsNode.addEventListener("click", (event) => this.#onClick(event));
    this.#view.addEventListener("scroll", () => this.#draw(), { passive: true });
    new ResizeObserver(() => this.#draw()).observe(this.#view);
    this.#arrange();
  }

  focusFilter(): void {
    this.#filter.focus();
    this.#filter.select();
  }

  /** Marks the selected tensor and opens its modules. */
  select(tensor: TensorInfo | undefined): void {
    this.#selected = tensor;
    if (tensor && this.#order === "tree") {
      for (let at = tensor.name.indexOf("."); at >= 0; at = tensor.name.indexOf(".", at + 1)) this.#open.add(tensor.name.slice(0, at + 1));
    }
    this.#arrange();
    if (tensor) this.#reveal();
  }

  #arrange(): void {
    const filter = { words: this.#filter.value, dtype: this.#dtype };
    const found = matching(this.#tensors, filter);
    const all = found.length === this.#tensors.length;
    if (this.#order !== "tree") this.#rows = listRows(found, this.#order);
    else if (all) this.#rows = treeRows(this.#root, (path) => this.#open.has(path));
    else this.#rows = treeRows(treeOf(found), (path) => !this.#closed.has(path));
    this.#isFiltered = !all;
    const selected = this.#rows.findIndex(({ node }) => node.kind === "tensor" && node.tensor === this.#selected);
    this.#active = Math.max(0, selected);
    this.#count.textContent = all ? plural(this.#tensors.length, "tensor") : `${formatCount(found.length)} of ${plural(this.#tensors.length, "tensor")}`;
    this.#empty.hidden = this.#rows.length > 0;
    this.#empty.textContent = this.#tensors.length === 0 ? "This model has no tensors." : "No tensor matches. Try fewer words, or another type.";
    this.#draw(true);
  }

  get #rowHeight(): number {
    return Number.parseFloat(getComputedStyle(this.#view).getPropertyValue("--row-height")) || 36;
  }

  /**
   * Renders the rows in view. Those that stay in view keep their nodes, unless the rows have `changed`: a browser makes
   * no click of a press and a release if the pressed node has gone in between.
   */
  #draw(changed = false): void {
    const height = this.#rowHeight;
    const { scrollTop, clientHeight } = this.#view;
    const first = Math.max(0, Math.floor(scrollTop / height) - SPARE_ROWS);
    const last = Math.min(this.#rows.length, Math.ceil((scrollTop + clientHeight) / height) + SPARE_ROWS);
    const all = changed || height !== this.#drawnHeight;
    this.#drawnHeight = height;
    for (const [position, node] of this.#nodes) {
      if (!all && position >= first && position < last) continue;
      node.remove();
      this.#nodes.delete(position);
    }
    this.#rowsNode.style.height = `${this.#rows.length * height}px`;
    let next: Element | null = this.#rowsNode.firstElementChild;
    for (let position = first; position < last; position++) {
      const kept = this.#nodes.get(position);
      if (kept) {
        next = kept.nextElementSibling;
        continue;
      }
      const node = this.#row(position, height);
      this.#nodes.set(position, node);
      this.#rowsNode.insertBefore(node, next);
    }
    if (this.#active >= first && this.#active < last) this.#view.setAttribute("aria-activedescendant", `row-${this.#active}`);
    else this.#view.removeAttribute("aria-activedescendant");
  }

  #row(position: number, height: number): HTMLElement {
    const row = this.#rows[position]!;
    const { node, level, siblings } = row;
    const selected = node.kind === "tensor" && node.tensor === this.#selected;
    const properties = { class: `row ${node.kind}`, role: "treeitem", id: `row-${position}`, "aria-level": level, "aria-posinset": row.position, "aria-setsize": siblings, "aria-selected": String(selected) };
    const expanded = node.kind === "module" ? { "aria-expanded": String(this.#isOpen(position)) } : {};
    const made = element("div", { ...properties, ...expanded }, ...rowContent(row));
    made.style.transform = `translateY(${position * height}px)`;
    made.style.setProperty("--level", String(Math.min(level, 8)));
    if (position === this.#active) made.classList.add("active");
    return made;
  }

  /** Returns whether the rows after this one are inside it. */
  #isOpen(position: number): boolean {
    return (this.#rows[position + 1]?.level ?? 0) > this.#rows[position]!.level;
  }

  #onClick(event: MouseEvent): void {
    // By position: the row that was pressed may have been rendered again before the release.
    this.#use(Math.floor((event.clientY - this.#rowsNode.getBoundingClientRect().top) / this.#rowHeight));
  }

  /** Toggles a module, or shows a tensor. */
  #use(position: number, open = !this.#isOpen(position)): void {
    const node = this.#rows[position]?.node;
    if (!node) return;
    if (node.kind === "tensor") return this.#onPick(node.tensor);
    if (this.#isFiltered ? !open : open) (this.#isFiltered ? this.#closed : this.#open).add(node.path);
    else (this.#isFiltered ? this.#closed : this.#open).delete(node.path);
    this.#arrange();
    this.#active = Math.max(0, this.#rows.findIndex((row) => row.node.kind === "module" && row.node.path === node.path));
    this.#draw(true);
  }

  #onKey(event: KeyboardEvent): void {
    if (event.target !== this.#view || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.#view.clientHeight / this.#rowHeight) - 1);
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    const row = this.#rows[this.#active];
    if (step !== undefined) {
      this.#active = Math.max(0, Math.min(this.#rows.length - 1, this.#active + step));
    } else if (event.key === "Enter" || event.key === " ") {
      this.#use(this.#active);
    } else if (event.key === "ArrowRight" && row?.node.kind === "module") {
      if (this.#isOpen(this.#active)) this.#active += 1;
      else this.#use(this.#active, true);
    } else if (event.key === "ArrowLeft" && row) {
      if (row.node.kind === "module" && this.#isOpen(this.#active)) this.#use(this.#active, false);
      else this.#active = Math.max(0, this.#rows.findLastIndex(({ level }, i) => i < this.#active && level < row.level));
    } else {
      return;
    }
    event.preventDefault();
    this.#reveal();
  }

  /** Scrolls as little as shows the active row. */
  #reveal(): void {
    const height = this.#rowHeight;
    const top = this.#active * height;
    const { scrollTop, clientHeight } = this.#view;
    if (top < scrollTop) this.#view.scrollTop = top;
    else if (top + height > scrollTop + clientHeight) this.#view.scrollTop = top + height - clientHeight;
    this.#draw(true);
  }
}
