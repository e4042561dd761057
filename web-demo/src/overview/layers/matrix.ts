/** The layer matrix: a row for each layer and a column for each module type, coloured by a metric. */

import type { TensorInfo } from "zstn";
import { Turns } from "../../engine/turns.js";
import { isTouch } from "../../page/appearance.js";
import { button, element } from "../../page/element.js";
import { formatCount, formatShape, plural } from "../../page/format.js";
import { legend } from "../picture/legend.js";
import { MARK_TEXTS } from "../picture/metric.js";
import type { Mark, Metric } from "../picture/metric.js";
import { colourAt, paletteColours, scaleOf } from "../picture/scale.js";
import type { Scale } from "../picture/scale.js";
import { CellGrid } from "./cell-grid.js";
import type { BoundedStacks, Cell, Column, PictureCell, PictureStack } from "./stacks.js";
import { typeOf } from "../../tree/dtype-family.js";

/**
 * The limits on the height of all rows together and of one row, in pixels. Rows shrink so that more layers fit on the
 * screen.
 */
const ALL_ROWS_PX = 430;
const MIN_ROW_PX = 6;
const MAX_ROW_PX = 24;
/** If rows are lower than this, in pixels, only some of them show their layer number. */
const LABEL_ROW_PX = 13;
const MARKS: readonly Mark[] = ["non-finite", "changed", "sampled"];
/** The maximum number of cells with NaN or infinite values that are named. */
const MAX_WARNINGS = 3;

export interface LayerMatrixOptions {
  readonly stacks: BoundedStacks;
  readonly onPick: (tensor: TensorInfo) => void;
  /** The meaning of a cell without a value. */
  readonly unknown: string;
}

export class LayerMatrix {
  readonly node = element("div", { class: "layer-matrix" });
  /** True if the model has layers at all. */
  readonly hasLayers: boolean;
  readonly #options: LayerMatrixOptions;
  readonly #cells = new Map<HTMLElement, PictureCell>();
  readonly #readOut = element("p", { class: "caption", role: "status" });
  readonly #legend = element("div", {});
  readonly #warning = element("p", { class: "odd", hidden: true });
  readonly #stacks: readonly PictureStack[];
  readonly #stacksNode = element("div", {});
  /** The button that also shows vectors, such as biases and normalisation weights. */
  readonly #vectors: HTMLButtonElement;
  #metric: Metric | undefined;
  /** The number of times that the cells have been coloured or are being coloured. */
  #colourings = 0;

  constructor(options: LayerMatrixOptions) {
    this.#options = options;
    const { stacks, moreStacks, outside } = options.stacks;
    this.hasLayers = stacks.length > 0;
    this.#stacks = stacks;
    this.#vectors = button("Biases and norms", () => this.#toggleVectors(), { class: "button small vectors", "aria-pressed": "false" });
    this.#vectors.hidden = !stacks.some(({ columns }) => hasBoth(columns));
    this.#showStacks();
    this.node.append(this.#vectors, this.#stacksNode);
    if (moreStacks > 0) this.node.append(element("p", { class: "quiet" }, `and ${plural(moreStacks, "more stack")} of layers in the list`));
    if (outside.length > 0) this.node.append(this.#outside(outside));
    this.node.append(this.#readOut, this.#legend, this.#warning);
    this.node.addEventListener("pointerover", (event) => this.#point(event.target));
    this.node.addEventListener("focusin", (event) => this.#point(event.target));
    this.node.addEventListener("pointerleave", () => this.#point(undefined));
    this.node.addEventListener("click", (event) => this.#pick(event.target));
    this.#point(undefined);
  }

  #toggleVectors(): void {
    this.#vectors.setAttribute("aria-pressed", String(!this.#showsVectors));
    this.#showStacks();
    if (this.#metric) void this.colour(this.#metric);
  }

  get #showsVectors(): boolean {
    return this.#vectors.getAttribute("aria-pressed") === "true";
  }

  #showStacks(): void {
    for (const node of this.#cells.keys()) if (this.#stacksNode.contains(node)) this.#cells.delete(node);
    this.#stacksNode.replaceChildren(...this.#stacks.map((stack) => this.#stack(this.#showsVectors ? stack : withoutVectors(stack), this.#stacks.length > 1)));
  }

  /** Colours all cells by a metric. A colouring that takes long lets the page handle events, and ends if another one begins. */
  async colour(metric: Metric): Promise<void> {
    this.#metric = metric;
    const own = (this.#colourings += 1);
    const turns = new Turns();
    const isLate = async (): Promise<boolean> => {
      await turns.next();
      return own !== this.#colourings;
    };
    const known = new Map<HTMLElement, { readonly value: number | undefined; readonly mark: Mark | undefined; readonly isOutlier: boolean }>();
    for (const [node, { tensors }] of this.#cells) {
      known.set(node, { value: metric.value(tensors), mark: metric.mark?.(tensors), isOutlier: metric.isOfMatrices === true && tensors.every(({ shape }) => shape.length < 2) });
      if (turns.isOver(tensors.length) && (await isLate())) return;
    }
    const scale = scaleOf(metric.scale, [...known.values()].flatMap(({ value, isOutlier }) => (value === undefined ? [] : [{ value, isOutlier }])));
    const colours = paletteColours(metric.palette);
    for (const [node, { value, mark }] of known) {
      this.#colour(node, value, scale, colours);
      this.#mark(node, mark);
      if (turns.isOver(2) && (await isLate())) return;
    }
    const isPartly = [...known.values()].some(({ value, mark }) => value === undefined && mark === undefined);
    const kinds = new Set([...known.values()].map(({ mark }) => mark));
    const notes = MARKS.filter((mark) => kinds.has(mark)).map((mark) => [mark, MARK_TEXTS[mark]] as const);
    this.#legend.replaceChildren(legend(metric, scale, [...notes, ...(isPartly ? [["hatched", this.#options.unknown] as const] : [])]));
    this.#warn([...known].flatMap(([node, { mark }]) => (mark === "non-finite" ? [this.#cells.get(node)!.tensors] : [])));
    this.#point(document.activeElement ?? undefined);
  }

  #colour(node: HTMLElement, value: number | undefined, scale: Scale, colours: readonly [string, string, string]): void {
    node.classList.toggle("unknown", value === undefined);
    node.style.background = value === undefined ? "" : colourAt(scale.at(value), colours);
    if (value === undefined) delete node.dataset["value"];
    else node.dataset["value"] = String(value);
    const cell = this.#cells.get(node)!.tensors;
    node.setAttribute("aria-label", `${nameOf(cell)}: ${this.#describe(cell)}`);
  }

  /** Marks a cell with a pattern, so that marks do not rely on colours. */
  #mark(node: HTMLElement, mark: Mark | undefined): void {
    for (const each of MARKS) node.classList.toggle(each, each === mark);
    if (mark !== undefined) node.classList.remove("unknown");
  }

  /** Names the tensors with NaN or infinite values, which a small cell could hide. */
  #warn(found: readonly Cell[]): void {
    this.#warning.hidden = found.length === 0;
    const items = found.slice(0, MAX_WARNINGS).flatMap((cell, i) => [i > 0 ? "; " : "", button(nameOf(cell), () => this.#open(cell), { class: "link" }), ` (${this.#describe(cell)})`]);
    const rest = found.length - MAX_WARNINGS;
    this.#warning.replaceChildren(element("b", {}, "NaN or ∞: "), ...items, rest > 0 ? ` and ${plural(rest, "more cell")}.` : ".");
  }

  #describe(cell: Cell): string {
    const metric = this.#metric;
    if (!metric) return "";
    if (metric.describe) return metric.describe(cell);
    const value = metric.value(cell);
    return `${metric.label} ${value === undefined ? "not known" : metric.format(value)}`;
  }

  #stack({ prefix, columns, moreKinds, rows, moreRows }: PictureStack, isTitled: boolean): HTMLElement {
    const grid = new CellGrid(columns, `Layers of ${prefix}`);
    const height = Math.max(MIN_ROW_PX, Math.min(MAX_ROW_PX, Math.floor(ALL_ROWS_PX / rows.length)));
    const step = height >= LABEL_ROW_PX ? 1 : height * 5 >= LABEL_ROW_PX ? 5 : 10;
    for (const { layer, cells } of rows) {
      const nodes = grid.addRow(String(layer), layer % step === 0, cells);
      nodes.forEach((node, i) => node && this.#cells.set(node, cells[i]!));
    }
    grid.setRowHeight(height);
    const more = [moreRows > 0 && plural(moreRows, "more layer"), moreKinds > 0 && plural(moreKinds, "more kind")].filter((part) => part !== false);
    return element("section", { class: "stack" }, isTitled && element("h3", {}, prefix), element("div", { class: "scroll", tabIndex: -1 }, grid.node), more.length > 0 && element("p", { class: "quiet" }, `and ${more.join(" and ")} in the list`));
  }

  #outside(tensors: readonly TensorInfo[]): HTMLElement {
    const items = tensors.map((tensor) => {
      const swatch = element("i", { class: "cell" });
      const item = element("button", { type: "button", class: "outside-cell" }, swatch, tensor.name.replace(/\.weight$/, ""));
      this.#cells.set(swatch, { tensors: [tensor] });
      item.addEventListener("click", () => this.#options.onPick(tensor));
      return item;
    });
    const rest = this.#options.stacks.moreOutside;
    return element("div", { class: "outside", role: "group", "aria-label": "Tensors outside the layers" }, ...items, rest > 0 && element("span", { class: "quiet" }, `and ${plural(rest, "more tensor")} in the list`));
  }

  #cellAt(target: EventTarget | null | undefined): Cell | undefined {
    if (!(target instanceof HTMLElement)) return undefined;
    return (this.#cells.get(target) ?? this.#cells.get((target.closest(".outside-cell")?.firstElementChild ?? target) as HTMLElement))?.tensors;
  }

  #point(target: EventTarget | null | undefined): void {
    const cell = this.#cellAt(target);
    if (!cell) return this.#readOut.replaceChildren(isTouch ? "Tap a cell to inspect its tensor." : "Point at a cell to read its value. Click it to inspect the tensor.");
    const [first] = cell;
    const about = cell.length === 1 ? `${formatShape(first!.shape)} ${typeOf(first!)}` : `${formatCount(cell.length)} tensors`;
    this.#readOut.replaceChildren(element("b", {}, nameOf(cell)), ` ${this.#describe(cell)} · ${about}`);
  }

  /** Opens the tensor of a cell; if there are several, the one with the highest value. */
  #pick(target: EventTarget | null): void {
    if (!(target instanceof HTMLElement) || !target.matches("[role=gridcell]")) return;
    const cell = this.#cells.get(target);
    if (cell) this.#open(cell.tensors);
  }

  #open(cell: Cell): void {
    const valueOf = (tensor: TensorInfo): number => this.#metric?.value([tensor]) ?? Number.NEGATIVE_INFINITY;
    this.#options.onPick(cell.reduce((best, tensor) => (valueOf(tensor) > valueOf(best) ? tensor : best)));
  }
}

const hasBoth = (columns: readonly Column[]): boolean => columns.some(({ isNarrow }) => isNarrow) && columns.some(({ isNarrow }) => !isNarrow);

/** Returns a stack without its columns of vectors, unless it has no other columns. */
function withoutVectors(stack: PictureStack): PictureStack {
  if (!hasBoth(stack.columns)) return stack;
  const isKept = (_: unknown, i: number): boolean => !stack.columns[i]!.isNarrow;
  const rows = stack.rows.map(({ layer, cells }) => ({ layer, cells: cells.filter(isKept) })).filter(({ cells }) => cells.some((cell) => cell !== undefined));
  return { ...stack, columns: stack.columns.filter(isKept), rows };
}

/**
 * Returns the name of a cell: the name of its tensor, or the common name of several with `*` for the components that
 * differ.
 */
function nameOf(cell: Cell): string {
  const [first, ...others] = cell.map(({ name }) => name.split("."));
  return first!.map((part, i) => (others.every((other) => other[i] === part) ? part : "*")).join(".");
}
