/** The list of tensors by how much they changed. */

import type { TensorInfo } from "zstn";
import { button, dataValue, element } from "../../page/element.js";
import { approximately, formatCount } from "../../page/format.js";
import type { Metric } from "../picture/metric.js";
import { colourAt, paletteColours, scaleFor } from "../picture/scale.js";

/** How many tensors are listed at first. */
const FIRST_ROWS = 20;

export interface RankingOptions {
  readonly tensors: readonly TensorInfo[];
  readonly onPick: (tensor: TensorInfo) => void;
  /** Returns whether the value of a tensor is an estimate. */
  readonly isEstimate: (tensor: TensorInfo) => boolean;
}

export class Ranking {
  readonly node = element("section", { class: "card wide ranking" });
  readonly #options: RankingOptions;
  readonly #list = element("ol", { class: "ranks" });
  readonly #note = element("p", { class: "quiet" });
  readonly #more: HTMLButtonElement;
  #isLong = false;
  #metric: Metric | undefined;

  constructor(options: RankingOptions) {
    this.#options = options;
    this.#more = button("", () => {
      this.#isLong = true;
      if (this.#metric) this.show(this.#metric);
    });
    this.node.append(element("h2", {}, "Most changed first"), this.#note, this.#list, this.#more);
  }

  /** Sorts the tensors by a metric. Tensors without a value are left out, and counted. */
  show(metric: Metric): void {
    this.#metric = metric;
    const { tensors } = this.#options;
    const known = tensors.flatMap((tensor) => {
      const value = metric.value([tensor]);
      return value === undefined ? [] : [{ tensor, value }];
    });
    const changed = known.filter(({ value }) => value > 0).sort((a, b) => b.value - a.value);
    const scale = scaleFor("root", changed.map(({ value }) => value));
    const most = changed.reduce((largest, { value }) => (Number.isFinite(value) ? Math.max(largest, value) : largest), 0);
    const shown = this.#isLong ? changed : changed.slice(0, FIRST_ROWS);
    const colours = paletteColours(metric.palette);
    this.#list.replaceChildren(...shown.map(({ tensor, value }) => this.#row(tensor, value, Math.min(1, value / most), colourAt(scale.at(value), colours), metric)));
    const rest = changed.length - shown.length;
    this.#more.hidden = rest === 0;
    this.#more.textContent = `Show ${formatCount(rest)} more`;
    const same = known.length - changed.length;
    this.#note.textContent = [
      known.length === 0 ? "Nothing compared yet." : changed.length === 0 ? "No tensor changed." : "",
      same > 0 && changed.length > 0 ? `${formatCount(same)} of ${formatCount(known.length)} tensors show no change.` : "",
    ].join("");
    this.#note.hidden = this.#note.textContent === "";
  }

  #row(tensor: TensorInfo, value: number, length: number, colour: string, metric: Metric): HTMLElement {
    const fill = element("i");
    fill.style.width = `${Math.max(0.5, 100 * length)}%`;
    fill.style.background = colour;
    const text = metric.format(value);
    return element(
      "li",
      {},
      button(tensor.name, () => this.#options.onPick(tensor), { class: "link", title: tensor.name }),
      element("span", { class: "rank-bar", "aria-hidden": "true" }, fill),
      dataValue(value, this.#options.isEstimate(tensor) ? approximately(text) : text),
    );
  }
}
