/** The tensor list: its search, filter and order, and the tree. The worker of the page finds its rows. */

import type { Engine } from "../engine/client.js";
import type { Arranged, ListFilter, OfModel } from "../engine/protocol.js";
import type { ListedTensor } from "../engine/tensor-table.js";
import { isAbort } from "../page/error-text.js";
import { showError } from "../page/notice.js";
import type { OpenedModel } from "../page/opened-model.js";
import { button, element, select } from "../page/element.js";
import { formatCount, plural } from "../page/format.js";
import { readPreference, writePreference } from "../page/preference.js";
import type { Route } from "../page/route.js";
import { ExpressionSearch } from "./expression-search.js";
import type { ExpressionResult } from "./expression-search.js";
import { RowList } from "./row-list.js";
import { modulesOf } from "./rows.js";
import type { Order } from "./rows.js";
import { searchFor } from "./search.js";
import type { Search } from "./search.js";
import { TreeView } from "./tree-view.js";

/** The state of the list in the URL. */
export type ListRoute = Pick<Route, "q" | "dtype" | "order">;

export interface TensorListOptions {
  readonly engine: Engine;
  readonly model: OpenedModel;
  readonly onPick: (tensor: ListedTensor) => void;
  /** Called with the part of the route that the user has changed. */
  readonly onRoute: (route: ListRoute) => void;
}

const ORDERS: readonly (readonly [Order, string])[] = [
  ["tree", "Modules"],
  ["file", "File order"],
  ["name", "Name"],
  ["largest", "Largest first"],
  ["ratio", "Best ratio first"],
];

/** The pause in typing after which similar names are suggested, in milliseconds. */
const NEAREST_DELAY_MS = 200;

export class TensorList {
  readonly node: HTMLElement;
  readonly #options: TensorListOptions;
  readonly #search = element("input", {
    type: "search",
    id: "filter",
    placeholder: "Search: q_proj  layers.3  *.bias  /regex/",
    autocomplete: "off",
    spellcheck: false,
    "aria-label": "Search tensors",
    title: "Words in names, types and shapes; * and ? as wildcards; /regular expression/",
  });
  readonly #count = element("p", { class: "count", role: "status" });
  readonly #empty = element("div", { class: "nothing", hidden: true });
  readonly #tree: TreeView;
  readonly #byDtype: HTMLElement;
  readonly #byOrder: HTMLElement;
  /** The paths of the open modules; `undefined` until the worker has chosen those that are open at first. */
  #open: Set<string> | undefined;
  /** The modules that the user has closed while search results are shown. Modules in search results are open by default. */
  readonly #closed = new Set<string>();
  readonly #expressions: ExpressionSearch;
  #nearestTimer: ReturnType<typeof setTimeout> | undefined;
  #rows: RowList;
  #order: Order = "tree";
  #dtype = "";
  #selected: ListedTensor | undefined;
  /** The number of tensors in the list. */
  #found: number;
  /** The filter of the rows that are shown, and the request for their tensors in order. */
  #filter: ListFilter | undefined;
  #sequence: Promise<Int32Array> | undefined;
  /** Resolves when the most recently requested arrangement is shown. */
  #pending: Promise<void> | undefined;
  /** Stops the requests for an arrangement that is no longer needed. */
  #arranging = new AbortController();

  constructor(options: TensorListOptions) {
    this.#options = options;
    const { model, onPick } = options;
    this.#found = model.tensors.size;
    this.#rows = new RowList(new Float64Array(), model.tensors);
    this.#expressions = new ExpressionSearch(model.tensors.columns);
    this.#tree = new TreeView({ onPick, onToggle: (path, open) => this.#toggle(path, open), arranged: () => this.#arranged(), onLeave: () => this.#search.focus() });
    const dtypes = model.figures.types.map(({ type }) => type).sort();
    this.#byDtype = select("Type", [["", "All types"], ...dtypes.map((dtype) => [dtype, dtype] as const)], "", (dtype) => {
      this.#dtype = dtype;
      this.#changed();
    });
    this.#byOrder = select("Order", ORDERS, "tree", (order) => {
      this.#order = order as Order;
      this.#changed();
    });
    const density = button("", () => this.#setRoomy(!this.node.classList.contains("roomy")), { class: "button small density", "aria-label": "Taller rows", title: "Taller rows" });
    const tools = element("div", { class: "tools" }, this.#search, this.#byDtype, this.#byOrder, density);
    this.node = element("div", { class: "list" }, tools, this.#count, this.#empty, this.#tree.node);
    // In an unpacked file, the ratio of every tensor is 1, so it is not shown.
    this.node.classList.toggle("unpacked", !model.figures.isPacked);
    this.#setRoomy(readPreference("rows") === "roomy");
    this.#search.addEventListener("input", () => {
      this.#closed.clear();
      this.#changed();
    });
    this.#search.addEventListener("keydown", (event) => this.#onSearchKey(event));
  }

  focusSearch(): void {
    this.#search.focus();
    this.#search.select();
  }

  /** Shows the state that the URL describes, marks the selected tensor and opens the modules that contain it. */
  show({ q = "", dtype = "", order = "tree" }: ListRoute, selected: ListedTensor | undefined): void {
    const known = ORDERS.some(([value]) => value === order) ? (order as Order) : "tree";
    this.#search.value = q;
    this.#dtype = choose(this.#byDtype, dtype);
    this.#order = choose(this.#byOrder, known) as Order;
    this.#selected = selected;
    if (selected && this.#order === "tree") for (const path of modulesOf(selected.name)) this.#open?.add(path);
    this.#arrange(selected !== undefined);
  }

  /**
   * Returns the tensor before or after the selected one in the list, including closed modules; without a selection, the
   * first tensor.
   */
  async neighbour(by: 1 | -1): Promise<ListedTensor | undefined> {
    const { engine, model } = this.#options;
    await this.#arranged();
    if (!this.#filter) return undefined;
    this.#sequence ??= engine.call("sequence", { ...this.#of, ...this.#filter });
    const sequence = await this.#sequence;
    const at = this.#selected ? sequence.indexOf(this.#selected.index) : -1;
    const index = at < 0 ? sequence[0] : sequence[at + by];
    return index === undefined ? undefined : model.tensors.at(index);
  }

  /** Stops all requests of the list. */
  close(): void {
    this.#arranging.abort();
    this.#expressions.stop();
    clearTimeout(this.#nearestTimer);
  }

  get #of(): OfModel {
    return { slot: "first", generation: this.#options.model.generation };
  }

  get #isFiltered(): boolean {
    return this.#found !== this.#options.model.tensors.size;
  }

  /** Applies a change that the user has made. */
  #changed(): void {
    this.#arrange();
    this.#options.onRoute({ q: this.#search.value || undefined, dtype: this.#dtype || undefined, order: this.#order === "tree" ? undefined : this.#order });
  }

  /** Arranges the list again. `reveal` scrolls to the selected tensor, `activate` is the path of the module to be the active row. */
  #arrange(reveal = false, activate?: string): void {
    this.#arranging.abort();
    this.#arranging = new AbortController();
    clearTimeout(this.#nearestTimer);
    this.#pending = this.#request(this.#arranging.signal, () => {
      if (reveal) this.#tree.reveal();
      if (activate !== undefined) this.#tree.activate(activate);
    });
  }

  /** Resolves when no arrangement is pending. */
  async #arranged(): Promise<void> {
    for (let pending; pending !== this.#pending; ) await (pending = this.#pending);
  }

  /** Finds the rows of the list and shows them. Then calls `done`, unless another arrangement has been requested. */
  async #request(signal: AbortSignal, done: () => void): Promise<void> {
    const { engine } = this.#options;
    const isFirst = this.#open === undefined;
    const q = this.#search.value;
    const [dtype, order] = [this.#dtype, this.#order];
    const search = searchFor(q);
    try {
      const finding = this.#find(search);
      // Without an expression, the request precedes those of the overview, whose answers take longer.
      const expression = finding && (await finding);
      signal.throwIfAborted();
      const filter: ListFilter = { q, dtype, order, ...(search && !("matches" in search) && { matches: expression?.found ?? new Int32Array() }) };
      const arranged = await engine.call("list", { ...this.#of, ...filter, open: this.#open && [...this.#open], reveal: isFirst ? this.#selected?.name : undefined, closed: [...this.#closed] }, { signal });
      if (arranged.open && isFirst) this.#open = new Set(arranged.open);
      this.#show(filter, arranged, search && "problem" in search ? search.problem : expression?.problem);
      done();
    } catch (error) {
      if (!isAbort(error)) showError(error);
    }
  }

  /** Starts a search if it is a regular expression; otherwise stops the running one. */
  #find(search: Search | undefined): Promise<ExpressionResult> | undefined {
    if (!search || !("expression" in search)) return void this.#expressions.stop();
    const result = this.#expressions.find(search.expression);
    if (this.#expressions.isRunning) this.#count.textContent = "Searching…";
    return result;
  }

  #show(filter: ListFilter, { rows, found }: Arranged, problem: string | undefined): void {
    const { tensors } = this.#options.model;
    this.#filter = filter;
    this.#sequence = undefined;
    this.#found = found;
    this.#rows = new RowList(rows, tensors);
    this.#count.textContent = this.#isFiltered ? `${formatCount(found)} of ${plural(tensors.size, "tensor")}` : plural(tensors.size, "tensor");
    this.#empty.hidden = this.#rows.length > 0;
    if (!this.#empty.hidden) this.#showNothing(problem);
    this.#tree.show(this.#rows, this.#selected);
  }

  /** Shows the reason that the list is empty, and suggests similar names after a short delay. */
  #showNothing(problem: string | undefined): void {
    const { engine, model, onPick } = this.#options;
    const isEmpty = model.tensors.size === 0;
    const words = problem ?? (isEmpty ? "This model has no tensors." : "No tensor matches. Try fewer words, or another type.");
    this.#empty.replaceChildren(element("p", {}, words));
    if (problem !== undefined || isEmpty) return;
    const { signal } = this.#arranging;
    this.#nearestTimer = setTimeout(() => {
      const suggest = (like: readonly number[]): void => {
        const buttons = like.map((index) => button(model.tensors.nameAt(index), () => onPick(model.tensors.at(index)), { class: "link" }));
        if (buttons.length > 0) this.#empty.replaceChildren(element("p", {}, "No tensor matches. Did you mean:"), ...buttons);
      };
      engine.call("nearest", { ...this.#of, text: this.#search.value }, { signal }).then(suggest, () => undefined);
    }, NEAREST_DELAY_MS);
  }

  #toggle(path: string, open: boolean): void {
    if (this.#isFiltered) this.#closed[open ? "delete" : "add"](path);
    else this.#open?.[open ? "add" : "delete"](path);
    this.#arrange(false, path);
  }

  #onSearchKey(event: KeyboardEvent): void {
    if (event.key === "ArrowDown") this.#tree.enter("first");
    else if (event.key === "ArrowUp") this.#tree.enter("last");
    else if (event.key === "Enter") {
      const pending = this.#pending;
      void pending?.then(() => {
        const first = pending === this.#pending ? this.#rows.firstTensor : undefined;
        if (first) this.#options.onPick(first);
      });
    } else if (event.key === "Escape" && this.#search.value === "") this.#search.blur();
    else return;
    event.preventDefault();
  }

  #setRoomy(roomy: boolean): void {
    this.node.classList.toggle("roomy", roomy);
    this.node.querySelector(".density")?.setAttribute("aria-pressed", String(roomy));
    writePreference("rows", roomy ? "roomy" : undefined);
    this.#tree.redraw();
  }
}

/** Selects an option. Returns its value; if there is no such option, selects the first one. */
function choose(labelled: HTMLElement, value: string): string {
  const list = labelled.querySelector("select")!;
  list.value = value;
  if (list.selectedIndex < 0) list.selectedIndex = 0;
  return list.value;
}
