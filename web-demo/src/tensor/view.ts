/** The view of one tensor, by itself or compared with another. */

import type { TensorInfo } from "zstn";
import type { Engine } from "../engine/client.js";
import type { Calls, Reference, Slice, Slot } from "../engine/protocol.js";
import type { ListedTensor } from "../engine/tensor-table.js";
import { button, element } from "../page/element.js";
import { formatBytes, formatCount, formatRatio, formatShape } from "../page/format.js";
import type { OpenedModel } from "../page/opened-model.js";
import { isBlockType, typeOf } from "../tree/dtype-family.js";
import { originalBytesOf } from "../tree/node.js";
import { dtypeChip } from "../tree/row.js";
import type { Activities } from "../network/activity.js";
import { parseSlice, sliceInfo, sliceText } from "../engine/slice.js";
import { TensorPanel } from "./panel.js";
import { multiples } from "./multiples.js";
import { exportPanel } from "./export-panel.js";
import { overlay } from "./charts.js";
import { SharedScale } from "./shared-scale.js";
import { sliceControls } from "./slice-sliders.js";
import type { ViewState } from "./view-state.js";
import { NO_VIEW } from "./view-state.js";
import { Viewport } from "./viewport.js";

/** The comparison mode: the tensor alone, side by side with another one, or the difference of the two. */
export type Mode = "alone" | "side" | "difference";

export const MODES: readonly (readonly [Mode, string])[] = [
  ["alone", "Single"],
  ["side", "Side by side"],
  ["difference", "Difference"],
];

export interface TensorViewOptions {
  readonly engine: Engine;
  readonly activities: Activities;
  readonly first: OpenedModel;
  readonly second: OpenedModel | undefined;
  readonly info: ListedTensor;
  readonly mode: Mode;
  /** The name of the other tensor, in the second model if it has a tensor of that name, otherwise in the first model. */
  readonly against: string | undefined;
  readonly state: ViewState;
  /** Called with the changed keys of the view. */
  readonly onState: (state: ViewState) => void;
  readonly onPick: (info: TensorInfo) => void;
  readonly copyLink: HTMLElement;
  readonly onLeave: () => void;
  readonly onCompare: (mode: Mode, against: string | undefined) => void;
}

/** The maximum number of names offered for comparison. */
const MAX_OFFERED = 300;

export class TensorView {
  readonly node: HTMLElement;
  readonly #options: TensorViewOptions;
  readonly #closing = new AbortController();
  /** Stops the reads of the slice that is shown. */
  #shown = new AbortController();
  #slice: Slice;
  #state: ViewState;
  readonly #body = element("div", { class: "tensor-body" });

  constructor(options: TensorViewOptions) {
    this.#options = options;
    const { info, state } = options;
    this.#state = state;
    this.#slice = parseSlice(state.slice, info) ?? [];
    const slicing = sliceControls(info, this.#slice, (slice) => this.#showSlice(slice));
    this.node = element("article", { class: "tensor" }, this.#head(), this.#comparison(), slicing, this.#body);
    void this.#show();
  }

  /** Shows another slice. The visible area stays the same if the slices have the same shape. */
  #showSlice(slice: Slice): void {
    const shapeOf = (slice: Slice) => sliceInfo(this.#options.info, slice).shape.join();
    const isSameShape = shapeOf(slice) === shapeOf(this.#slice);
    this.#slice = slice.some((entry) => entry !== null) ? slice : [];
    this.#onState({ slice: sliceText(slice), ...(!isSameShape && { at: undefined, pin: undefined }) });
    this.#shown.abort();
    this.#shown = new AbortController();
    void this.#show();
  }

  #onState(state: ViewState): void {
    this.#state = { ...this.#state, ...state };
    this.#options.onState(state);
  }

  /** Stops all reads of this view. */
  close(): void {
    this.#closing.abort();
  }

  #head(): HTMLElement {
    const { info, onLeave, copyLink } = this.#options;
    const { name, dtype, shape, byteLength, storedLength, parts, aliasOf, base, format } = info;
    const originalBytes = originalBytesOf(info);
    const values = shape.reduce((product, size) => product * size, 1);
    const ranges = parts.filter(({ length }) => length > 0).map(({ offset, length }) => `${formatCount(offset)}–${formatCount(offset + length - 1)}`);
    const facts: (HTMLElement | string)[] = [
      dtypeChip(typeOf(info)),
      element("b", {}, formatShape(shape)),
      `${formatCount(values)} values`,
      base === "copy" ? `${formatBytes(byteLength)}, nothing stored: same as in the base` : `${formatBytes(originalBytes)}, stored in ${formatBytes(storedLength)} (${formatRatio(originalBytes / Math.max(1, storedLength))})`,
    ];
    // A view of a larger storage has its share of the stored bytes.
    const isShared = parts.reduce((sum, { length }) => sum + length, 0) > storedLength;
    if (ranges.length > 0 && ranges.length <= 3) facts.push(`${isShared ? "inside" : "at"} bytes ${ranges.join(", ")}`);
    if (aliasOf !== undefined) facts.push(`tied to ${aliasOf}`);
    if (base !== undefined && base !== "copy") facts.push("stored as a delta from the base");
    if (format !== undefined) facts.push(isBlockType(format) ? `read as ${dtype}` : `stored as ${format}`);
    return element(
      "header",
      { class: "stage-head tensor-head" },
      button("← Overview", onLeave, { class: "button small" }),
      element("h1", { tabIndex: -1 }, name === "" ? "(no name)" : name),
      copyLink,
      element("p", { class: "facts" }, ...facts.map((fact) => element("span", {}, fact))),
    );
  }

  /** Returns the controls that select another tensor and the comparison mode. */
  #comparison(): HTMLElement {
    const { engine, info, mode, against, first, second, onCompare } = this.#options;
    const other = this.#other();
    const offered = element("datalist", { id: "offered" });
    const offer = (names: readonly string[]): void => offered.replaceChildren(...names.map((name) => element("option", { value: name })));
    engine.call("alike", { of: { slot: "first", tensor: info.name, generation: first.generation }, limit: MAX_OFFERED }, { signal: this.#closing.signal }).then(offer, () => undefined);
    const input = element("input", { type: "text", value: against ?? other?.tensor ?? "", placeholder: "name of another tensor", spellcheck: false, autocomplete: "off", "aria-label": "Tensor to compare with" });
    input.setAttribute("list", "offered");
    input.addEventListener("change", () => onCompare(mode === "alone" ? "side" : mode, input.value.trim() || undefined));
    const buttons = MODES.map(([value, text]) => button(text, () => onCompare(value, input.value.trim() || undefined), { class: "button small", "aria-pressed": String(value === mode), disabled: value !== "alone" && !other && input.value === "" }));
    input.addEventListener("input", () => buttons.slice(1).forEach((item) => (item.disabled = input.value.trim() === "")));
    const where = other && (other.slot === "second" ? ` of ${second!.name}` : "");
    return element("div", { class: "comparison", role: "group", "aria-label": "Comparison" }, element("span", { class: "segments" }, ...buttons), element("label", {}, element("span", {}, "vs"), input), where ? element("span", { class: "quiet" }, where) : undefined, offered);
  }

  /** Returns the tensor to compare with; `undefined` if there is none. */
  #other(): Reference | undefined {
    const { against, first, second, info } = this.#options;
    const name = against ?? info.name;
    if (second?.tensors.find(name)) return { slot: "second", tensor: name, generation: second.generation };
    if (against !== undefined && first.tensors.find(against)) return { slot: "first", tensor: against, generation: first.generation };
    return undefined;
  }

  async #show(): Promise<void> {
    const { engine, activities, info, mode, first, second, against, onPick } = this.#options;
    const signal = AbortSignal.any([this.#closing.signal, this.#shown.signal]);
    const of: Reference = { slot: "first", tensor: info.name, slice: this.#slice, generation: first.generation };
    const other = this.#other();
    if (mode !== "alone" && !other) {
      const name = against ?? info.name;
      this.#body.replaceChildren(element("p", { class: "notice error", role: "alert" }, second ? `No tensor named ${name} to compare with. Choose one of the names offered.` : `There is nothing to compare with: name another tensor of this model, or open a second model from the overview.`));
      return;
    }
    const infoOf = ({ slot, tensor }: Reference): TensorInfo => this.#model(slot).tensors.find(tensor)!;
    if (mode === "side") return this.#sideBySide(of, other!, infoOf, signal);
    const minus = mode === "difference" && other ? { ...other, slice: this.#slice } : undefined;
    if (minus && !sameShape(infoOf(minus), info)) {
      this.#body.replaceChildren(element("p", { class: "notice error", role: "alert" }, `${minus.tensor} has the shape ${formatShape(infoOf(minus).shape)}, this one ${formatShape(info.shape)}: only tensors of the same shape can be subtracted. View them side by side.`));
      return;
    }
    const name = minus ? `${info.name} minus ${minus.tensor === info.name ? `that of ${second?.name}` : minus.tensor}` : info.name;
    const title = `${name}${this.#sliceTitle(info)}`;
    const decoded = minus || !mayHaveScales(info) ? undefined : await this.#decoded(of);
    if (signal.aborted) return;
    if (decoded) return this.#showDecoded(of, decoded, title, signal);
    const layers = minus || this.#slice.length > 0 ? undefined : multiples({ engine, activities, info, model: first, signal, onPick });
    const panel = new TensorPanel({ engine, activities, of, minus, info: sliceInfo(info, this.#slice), title, model: first.name, signal, state: this.#state, onState: (state) => this.#onState(state), layers });
    this.#body.replaceChildren(panel.node);
    if (!minus) this.#body.append(this.#export(of));
    await panel.show();
  }

  #export(of: Reference): HTMLElement {
    const { engine, activities, first, second } = this.#options;
    return exportPanel({ engine, activities, of, source: first.source, name: first.name, base: first.kind === "z4dm" ? second?.source : undefined });
  }

  /** Returns the weight whose elements this tensor contains, if its blocks have scales. */
  async #decoded(of: Reference): Promise<Calls["decoded"]["result"]> {
    return this.#options.engine.call("decoded", { of }, { signal: this.#closing.signal }).catch(() => undefined);
  }

  /** Shows a weight with the scales of its blocks, or, if the user has chosen so, its stored elements. Slices are stored elements. */
  async #showDecoded(of: Reference, decoded: NonNullable<Calls["decoded"]["result"]>, title: string, signal: AbortSignal): Promise<void> {
    const { engine, activities, info, first } = this.#options;
    const { format, blockLength, scales, global } = decoded.weight;
    const isSlice = this.#slice.length > 0;
    const isDecoded = !isSlice && this.#state.values !== "stored";
    const choose = () => {
      // The two matrices have different areas, so the view is reset.
      this.#onState({ ...NO_VIEW, values: isDecoded ? "stored" : undefined });
      void this.#showDecoded(of, decoded, title, signal);
    };
    const words = isDecoded
      ? `${format}: each ${blockLength} values share a scale in ${scales}${global ? `, and all one in ${global.name}` : ""}. The values below are decoded.`
      : `These are the stored elements, without the scales in ${scales}.`;
    const change = isSlice ? undefined : button(isDecoded ? "Show stored elements" : "Show decoded values", choose);
    const note = element("p", { class: "notice scales" }, element("span", {}, words), change);
    const shown = isDecoded ? decoded.info : sliceInfo(info, this.#slice);
    const panel = new TensorPanel({ engine, activities, of: { ...of, isDecoded }, info: shown, title, model: first.name, signal, state: this.#state, onState: (state) => this.#onState(state) });
    this.#body.replaceChildren(note, panel.node, this.#export(of));
    await panel.show();
  }

  /** Returns the entries of the slice, to be appended to the name of a tensor; empty for the whole tensor. */
  #sliceTitle({ shape }: TensorInfo): string {
    return this.#slice.length === 0 ? "" : `[${shape.map((_, axis) => this.#slice[axis] ?? ":").join(", ")}]`;
  }

  #sideBySide(of: Reference, other: Reference, infoOf: (reference: Reference) => TensorInfo, signal: AbortSignal): Promise<void> {
    const { engine, activities, info: own } = this.#options;
    const scale = new SharedScale();
    let shared: Viewport | undefined;
    const shareView = (rows: number, columns: number): Viewport => {
      if (shared?.rows === rows && shared.columns === columns) return shared;
      return (shared = new Viewport(rows, columns));
    };
    const panels = [of, other].map((whole, i) => {
      // A slice of this tensor may not exist in a tensor of another shape, which is shown as a whole.
      const slice = sameShape(infoOf(whole), own) ? this.#slice : [];
      const reference = { ...whole, slice };
      const info = sliceInfo(infoOf(whole), slice);
      const title = reference.tensor === of.tensor ? `${reference.tensor} of ${this.#model(reference.slot).name}` : reference.tensor;
      const panel = new TensorPanel({ engine, activities, of: reference, info, title, model: this.#model(reference.slot).name, signal, shareView, scale, isOverlaid: true, state: this.#state, onState: i === 0 ? (state) => this.#onState(state) : () => {} });
      const heading = element("h2", { class: "side-title" }, this.#model(reference.slot).name, element("span", { class: "quiet" }, ` ${reference.tensor}`));
      return { panel, node: element("section", { class: "side", "aria-label": title }, heading, panel.node) };
    });
    this.#body.replaceChildren(element("div", { class: "sides" }, ...panels.map(({ node }) => node)));
    return Promise.all(panels.map(({ panel }) => panel.show())).then(([a, b]) => {
      if (!a || !b || a.rowsRead === 0 || b.rowsRead === 0) return;
      const nameOf = ({ slot, tensor }: Reference) => (of.tensor === other.tensor ? this.#model(slot).name : tensor);
      this.#body.prepend(overlay(a, b, [nameOf(of), nameOf(other)], signal));
    });
  }

  #model(slot: Slot): OpenedModel {
    return slot === "second" ? this.#options.second! : this.#options.first;
  }
}

/** Returns whether the elements of a tensor may have scales in another tensor. */
const mayHaveScales = ({ dtype }: TensorInfo): boolean => /^(U8|F[468](_|$))/.test(dtype);

const sameShape = (a: TensorInfo, b: TensorInfo): boolean => a.shape.length === b.shape.length && a.shape.every((size, i) => size === b.shape[i]);
