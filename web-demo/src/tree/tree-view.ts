/** Renders the rows of the tree. Only visible rows are in the DOM, so that 100,000 rows take no longer than thirty. */

import type { ListedTensor } from "../engine/tensor-table.js";
import { element } from "../page/element.js";
import { rowContent } from "./row.js";
import type { RowList } from "./row-list.js";

/** The number of rows in the DOM above and below the visible ones, so that scrolling shows no blanks. */
const SPARE_ROWS = 10;

/** The number of rows that stay visible above and below the active row. */
const CONTEXT_ROWS = 3;

/** The keys that the tree handles. */
const KEYS: readonly string[] = ["ArrowDown", "ArrowUp", "ArrowLeft", "ArrowRight", "PageDown", "PageUp", "Home", "End", "Enter", " "];

export interface TreeViewOptions {
  readonly onPick: (tensor: ListedTensor) => void;
  /** Opens or closes a module. */
  readonly onToggle: (path: string, open: boolean) => void;
  /** Resolves when the rows of the last search and order are shown. */
  readonly arranged: () => Promise<void>;
  /** Called when the user moves up from the first row. */
  readonly onLeave: () => void;
}

export class TreeView {
  readonly node = element("div", { class: "tree", role: "tree", tabIndex: 0, "aria-label": "Tensors of the model" });
  readonly #options: TreeViewOptions;
  readonly #rowsNode = element("div", { class: "rows", role: "presentation" });
  #rows: RowList | undefined;
  #active = 0;
  #selected: ListedTensor | undefined;
  /** The rows in the DOM, by position, and the height they were placed with. */
  readonly #nodes = new Map<number, HTMLElement>();
  #drawnHeight = 0;
  /** True if the active row was scrolled into view, and the user has not scrolled since. */
  #isRevealed = false;
  /** Resolves when all pressed keys have been handled. */
  #keys: Promise<void> = Promise.resolve();

  constructor(options: TreeViewOptions) {
    this.#options = options;
    this.node.append(this.#rowsNode);
    this.node.addEventListener("keydown", (event) => this.#onKey(event));
    this.#rowsNode.addEventListener("click", (event) => this.#onClick(event));
    this.node.addEventListener("scroll", () => this.#draw(), { passive: true });
    for (const type of ["wheel", "touchmove", "pointerdown"]) this.node.addEventListener(type, () => (this.#isRevealed = false), { passive: true });
    new ResizeObserver(() => (this.#isRevealed ? this.reveal() : this.#draw())).observe(this.node);
  }

  /** Shows rows. The row of `selected` becomes the active one. */
  show(rows: RowList, selected: ListedTensor | undefined): void {
    this.#rows = rows;
    this.#selected = selected;
    this.#active = Math.max(0, rows.positionOf(selected));
    this.#draw(true);
  }

  /** Makes the module with this path the active row. */
  activate(path: string): void {
    this.#active = Math.max(0, this.#rows?.positionOfModule(path) ?? 0);
    this.#draw(true);
  }

  /** Redraws all rows after a change of their height. */
  redraw(): void {
    this.#draw(true);
  }

  /** Moves the focus here, to the first or the last row. */
  enter(at: "first" | "last"): void {
    this.node.focus();
    this.#afterOthers(() => {
      this.#active = at === "first" ? 0 : Math.max(0, this.#length - 1);
      this.reveal();
    });
  }

  /** Handles a key after those that were pressed before it, with the rows of the last search. */
  #afterOthers(handle: () => void): void {
    this.#keys = this.#keys.then(this.#options.arranged).then(handle);
  }

  get #length(): number {
    return this.#rows?.length ?? 0;
  }

  get #rowHeight(): number {
    return Number.parseFloat(getComputedStyle(this.node).getPropertyValue("--row-height")) || 24;
  }

  /**
   * Renders the visible rows. Rows that stay visible keep their nodes, unless the rows have `changed`: browsers report
   * no click if the pressed node has been removed before the release.
   */
  #draw(changed = false): void {
    const height = this.#rowHeight;
    const { scrollTop, clientHeight } = this.node;
    const first = Math.max(0, Math.floor(scrollTop / height) - SPARE_ROWS);
    const last = Math.min(this.#length, Math.ceil((scrollTop + clientHeight) / height) + SPARE_ROWS);
    const all = changed || height !== this.#drawnHeight;
    this.#drawnHeight = height;
    for (const [position, node] of this.#nodes) {
      if (!all && position >= first && position < last) continue;
      node.remove();
      this.#nodes.delete(position);
    }
    this.#rowsNode.style.height = `${this.#length * height}px`;
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
    if (this.#active >= first && this.#active < last) this.node.setAttribute("aria-activedescendant", `row-${this.#active}`);
    else this.node.removeAttribute("aria-activedescendant");
  }

  #row(position: number, height: number): HTMLElement {
    const row = this.#rows!.at(position)!;
    const { node, level, siblings } = row;
    const selected = node.kind === "tensor" && node.tensor.index === this.#selected?.index;
    const properties = { class: `row ${node.kind}`, role: "treeitem", id: `row-${position}`, "aria-level": level, "aria-posinset": row.position, "aria-setsize": siblings, "aria-selected": String(selected) };
    const expanded = node.kind === "module" ? { "aria-expanded": String(this.#isOpen(position)) } : {};
    const made = element("div", { ...properties, ...expanded }, ...rowContent(row));
    made.style.transform = `translateY(${position * height}px)`;
    made.style.setProperty("--level", String(Math.min(level, 8)));
    if (position === this.#active) made.classList.add("active");
    return made;
  }

  /** Returns whether the row at this position is open, so that the next rows are inside it. */
  #isOpen(position: number): boolean {
    return (this.#rows?.levelAt(position + 1) ?? 0) > (this.#rows?.levelAt(position) ?? 0);
  }

  /** Returns the position of the row of the module that contains a row; 0 if there is none. */
  #parentOf(position: number): number {
    const level = this.#rows!.levelAt(position);
    let parent = position;
    while (parent > 0 && this.#rows!.levelAt(parent) >= level) parent -= 1;
    return parent;
  }

  #onClick(event: MouseEvent): void {
    const row = (event.target as Element).closest('[role="treeitem"]');
    // If there is no row, the position determines it: the pressed row may have been rendered again before the release.
    // Clicks of assistive technology have a row but no coordinates.
    this.#use(row ? Number(row.id.slice("row-".length)) : Math.floor((event.clientY - this.#rowsNode.getBoundingClientRect().top) / this.#rowHeight));
  }

  /** Toggles a module, or opens a tensor. */
  #use(position: number, open = !this.#isOpen(position)): void {
    const node = this.#rows?.at(position)?.node;
    if (node?.kind === "tensor") this.#options.onPick(node.tensor);
    else if (node) this.#options.onToggle(node.path, open);
  }

  #onKey(event: KeyboardEvent): void {
    if (event.target !== this.node || event.ctrlKey || event.metaKey || event.altKey || !KEYS.includes(event.key)) return;
    event.preventDefault();
    this.#afterOthers(() => this.#press(event.key));
  }

  #press(key: string): void {
    const page = Math.max(1, Math.floor(this.node.clientHeight / this.#rowHeight) - 1);
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const step = steps[key];
    const row = this.#rows?.at(this.#active);
    if (key === "ArrowUp" && this.#active === 0) {
      this.#options.onLeave();
    } else if (step !== undefined) {
      this.#active = Math.max(0, Math.min(this.#length - 1, this.#active + step));
    } else if (key === "Enter" || key === " ") {
      this.#use(this.#active);
    } else if (key === "ArrowRight" && row?.node.kind === "module") {
      if (this.#isOpen(this.#active)) this.#active += 1;
      else this.#use(this.#active, true);
    } else if (key === "ArrowLeft" && row) {
      if (row.node.kind === "module" && this.#isOpen(this.#active)) this.#use(this.#active, false);
      else this.#active = this.#parentOf(this.#active);
    } else {
      return;
    }
    this.reveal();
  }

  /**
   * Scrolls as little as possible to show the active row and some rows around it, immediately and after the list is
   * resized.
   */
  reveal(): void {
    this.#isRevealed = true;
    const height = this.#rowHeight;
    const top = this.#active * height;
    const { scrollTop, clientHeight } = this.node;
    const context = height * Math.max(0, Math.min(CONTEXT_ROWS, Math.floor((clientHeight / height - 1) / 2)));
    this.#draw(true); // sets the height of all rows, which limits scrolling
    if (top - context < scrollTop) this.node.scrollTop = top - context;
    else if (top + height + context > scrollTop + clientHeight) this.node.scrollTop = top + height + context - clientHeight;
    this.#draw();
  }
}
