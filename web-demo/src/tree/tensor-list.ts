/** The tensor list: its search, filter and order, and the tree. */

import type { TensorInfo } from "zstn";
import { button, element, select } from "../page/element.js";
import { formatCount, plural } from "../page/format.js";
import { readPreference, writePreference } from "../page/preference.js";
import type { Route } from "../page/route.js";
import { typeOf } from "./dtype-family.js";
import { ExpressionSearch } from "./expression-search.js";
import { isPacked, treeOf } from "./node.js";
import type { Branch } from "./node.js";
import { firstOpen, listRows, treeRows } from "./rows.js";
import type { Order, Row } from "./rows.js";
import { nearest, searchFor } from "./search.js";
import { TreeView } from "./tree-view.js";

/** The state of the list in the URL. */
export type ListRoute = Pick<Route, "q" | "dtype" | "order">;

export interface TensorListOptions {
  readonly tensors: readonly TensorInfo[];
  readonly onPick: (tensor: TensorInfo) => void;
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
  readonly #root: Branch;
  readonly #open: Set<string>;
  /** The modules that the user has closed while search results are shown. Modules in search results are open by default. */
  readonly #closed = new Set<string>();
  readonly #expressions: ExpressionSearch;
  #nearestTimer: ReturnType<typeof setTimeout> | undefined;
  #found: readonly TensorInfo[];
  #rows: readonly Row[] = [];
  #order: Order = "tree";
  #dtype = "";
  #selected: TensorInfo | undefined;

  constructor(options: TensorListOptions) {
    this.#options = options;
    const { tensors, onPick } = options;
    this.#found = tensors;
    this.#expressions = new ExpressionSearch(tensors, () => {
      this.#arrange();
      if (this.#selected) this.#tree.reveal();
    });
    this.#root = treeOf(tensors);
    this.#open = firstOpen(this.#root);
    this.#tree = new TreeView({ onPick, onToggle: (path, open) => this.#toggle(path, open), onLeave: () => this.#search.focus() });
    const dtypes = [...new Set(tensors.map(typeOf))].sort();
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
    this.node.classList.toggle("unpacked", !tensors.some((tensor) => isPacked(tensor)));
    this.#setRoomy(readPreference("rows") === "roomy");
    this.#search.addEventListener("input", () => {
      this.#closed.clear();
      this.#changed();
    });
    this.#search.addEventListener("keydown", (event) => this.#onSearchKey(event));
    this.#arrange();
  }

  focusSearch(): void {
    this.#search.focus();
    this.#search.select();
  }

  /** Shows the state that the URL describes. */
  show({ q = "", dtype = "", order = "tree" }: ListRoute): void {
    const known = ORDERS.some(([value]) => value === order) ? (order as Order) : "tree";
    if (this.#search.value === q && this.#dtype === dtype && this.#order === known) return;
    this.#search.value = q;
    this.#dtype = choose(this.#byDtype, dtype);
    this.#order = choose(this.#byOrder, known) as Order;
    this.#arrange();
  }

  /** Marks the selected tensor and opens the modules that contain it. */
  select(tensor: TensorInfo | undefined): void {
    this.#selected = tensor;
    if (tensor && this.#order === "tree") {
      for (let at = tensor.name.indexOf("."); at >= 0; at = tensor.name.indexOf(".", at + 1)) this.#open.add(tensor.name.slice(0, at + 1));
    }
    this.#arrange();
    if (tensor) this.#tree.reveal();
  }

  /**
   * Returns the tensor before or after the selected one in the list, including closed modules; without a selection, the
   * first tensor.
   */
  neighbour(by: 1 | -1): TensorInfo | undefined {
    const rows = this.#order === "tree" ? treeRows(treeOf(this.#found), () => true) : this.#rows;
    const tensors = rows.flatMap(({ node }) => (node.kind === "tensor" ? [node.tensor] : []));
    const at = this.#selected ? tensors.indexOf(this.#selected) : -1;
    return at < 0 ? tensors[0] : tensors[at + by];
  }

  get #isFiltered(): boolean {
    return this.#found.length !== this.#options.tensors.length;
  }

  /** Applies a change that the user has made. */
  #changed(): void {
    this.#arrange();
    this.#options.onRoute({ q: this.#search.value || undefined, dtype: this.#dtype || undefined, order: this.#order === "tree" ? undefined : this.#order });
  }

  #arrange(): void {
    const { tensors } = this.#options;
    const search = searchFor(this.#search.value);
    const dtype = this.#dtype;
    const expression = search && "expression" in search ? this.#expressions.find(search.expression) : undefined;
    if (!expression) this.#expressions.stop();
    const problem = search && "problem" in search ? search.problem : expression?.problem;
    const isFound = (tensor: TensorInfo): boolean => !search || (expression ? expression.found.has(tensor) : "matches" in search && search.matches(tensor));
    this.#found = search || dtype ? tensors.filter((tensor) => (dtype === "" || typeOf(tensor) === dtype) && isFound(tensor)) : tensors;
    if (this.#order !== "tree") this.#rows = listRows(this.#found, this.#order);
    else if (!this.#isFiltered) this.#rows = treeRows(this.#root, (path) => this.#open.has(path));
    else this.#rows = treeRows(treeOf(this.#found), (path) => !this.#closed.has(path));
    this.#count.textContent = this.#isFiltered ? `${formatCount(this.#found.length)} of ${plural(tensors.length, "tensor")}` : plural(tensors.length, "tensor");
    clearTimeout(this.#nearestTimer);
    if (expression?.isRunning) this.#count.textContent = "Searching…";
    this.#empty.hidden = this.#rows.length > 0 || expression?.isRunning === true;
    if (!this.#empty.hidden) this.#showNothing(problem);
    this.#tree.show(this.#rows, this.#selected);
  }

  /** Shows the reason that the list is empty, and suggests similar names after a short delay. */
  #showNothing(problem: string | undefined): void {
    const { tensors, onPick } = this.#options;
    const words = problem ?? (tensors.length === 0 ? "This model has no tensors." : "No tensor matches. Try fewer words, or another type.");
    this.#empty.replaceChildren(element("p", {}, words));
    if (problem !== undefined || tensors.length === 0) return;
    this.#nearestTimer = setTimeout(() => {
      const like = nearest(this.#search.value, tensors);
      if (like.length > 0) this.#empty.replaceChildren(element("p", {}, "No tensor matches. Did you mean:"), ...like.map((tensor) => button(tensor.name, () => onPick(tensor), { class: "link" })));
    }, NEAREST_DELAY_MS);
  }

  #toggle(path: string, open: boolean): void {
    if (this.#isFiltered ? !open : open) (this.#isFiltered ? this.#closed : this.#open).add(path);
    else (this.#isFiltered ? this.#closed : this.#open).delete(path);
    this.#arrange();
    this.#tree.activate(path);
  }

  #onSearchKey(event: KeyboardEvent): void {
    if (event.key === "ArrowDown") this.#tree.enter("first");
    else if (event.key === "ArrowUp") this.#tree.enter("last");
    else if (event.key === "Enter") {
      const first = this.#rows.find(({ node }) => node.kind === "tensor")?.node;
      if (first?.kind === "tensor") this.#options.onPick(first.tensor);
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
