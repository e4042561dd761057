/** The list of tensors, ranked by their change. */

import type { TensorInfo } from "zstn";
import { button, dataValue, element } from "../../page/element.js";
import { formatCount, plural } from "../../page/format.js";
import type { Metric } from "../picture/metric.js";
import { colourAt, paletteColours, scaleFor } from "../picture/scale.js";
import type { MeasuredChanges } from "./measured.js";
import type { ChangedTensor, ChangeSummary } from "./summary.js";

/** The number of tensors that are listed at first. */
const FIRST_ROWS = 20;

export interface RankingOptions {
  readonly measured: MeasuredChanges;
  readonly onPick: (tensor: TensorInfo) => void;
}

interface Ranked extends ChangedTensor {
  readonly value: number | undefined;
}

export class Ranking {
  readonly node = element("section", { class: "card wide ranking" });
  readonly #options: RankingOptions;
  readonly #list = element("ol", { class: "ranks" });
  readonly #note = element("p", { class: "quiet" });
  readonly #more: HTMLButtonElement;
  #isLong = false;
  #shown: { readonly metric: Metric; readonly summary: ChangeSummary } | undefined;

  constructor(options: RankingOptions) {
    this.#options = options;
    this.#more = button("", () => {
      this.#isLong = true;
      if (this.#shown) this.show(this.#shown.metric, this.#shown.summary);
    });
    this.node.append(element("h2", {}, "Most changed first"), this.#note, this.#list, this.#more);
  }

  /**
   * Sorts the changed tensors by a metric. Tensors whose NaN or infinite values changed come first, and tensors with a
   * change of unknown size last.
   */
  show(metric: Metric, summary: ChangeSummary): void {
    this.#shown = { metric, summary };
    const changed = summary.changed.map((each): Ranked => ({ ...each, value: metric.value([each.tensor]) }));
    changed.sort((a, b) => b.nonFinite - a.nonFinite || (b.value ?? -1) - (a.value ?? -1));
    const values = changed.flatMap(({ value }) => (value === undefined ? [] : [value]));
    const scale = scaleFor("root", values);
    const most = values.reduce((largest, value) => (Number.isFinite(value) ? Math.max(largest, value) : largest), 0);
    const shown = this.#isLong ? changed : changed.slice(0, FIRST_ROWS);
    const colours = paletteColours(metric.palette);
    this.#list.replaceChildren(...shown.map((ranked) => this.#row(ranked, most, (value) => colourAt(scale.at(value), colours), metric)));
    const rest = changed.length - shown.length;
    this.#more.hidden = rest === 0;
    this.#more.textContent = `Show ${formatCount(rest)} more`;
    this.#note.textContent = wordsOf(summary);
    this.#note.hidden = this.#note.textContent === "";
  }

  #row({ tensor, value, nonFinite }: Ranked, most: number, colourOf: (value: number) => string, metric: Metric): HTMLElement {
    const fill = element("i", nonFinite > 0 ? { class: "non-finite" } : {});
    const known = value ?? 0;
    fill.style.width = `${nonFinite > 0 ? 100 : Math.max(0.5, most === 0 ? 100 : 100 * Math.min(1, known / most))}%`;
    if (nonFinite === 0 && value !== undefined) fill.style.background = colourOf(known);
    const size = value === undefined ? "changed, not measured" : (metric.text?.([tensor]) ?? metric.format(value));
    const text = nonFinite > 0 ? this.#options.measured.finiteness(tensor)!.text : size;
    return element(
      "li",
      {},
      button(tensor.name, () => this.#options.onPick(tensor), { class: "link", title: tensor.name }),
      element("span", { class: "rank-bar", "aria-hidden": "true" }, fill),
      value === undefined || nonFinite > 0 ? element("data", { value: nonFinite > 0 ? "NaN" : "" }, text) : dataValue(value, text),
    );
  }
}

/** Returns a sentence about the tensors that are not listed. */
function wordsOf({ tensors, verdicts: { same }, changed, onlyStated }: ChangeSummary): string {
  const undecided = tensors - same - changed.length;
  if (tensors === 0) return "";
  const byDigest = onlyStated > 0 ? ", by the digests in the files" : "";
  if (undecided === 0) return changed.length === 0 ? `No tensor changed${byDigest}.` : same === 0 ? "" : `${formatCount(same)} of ${plural(tensors, "tensor")} did not change.`;
  const found = changed.length === 0 ? "No change found so far. " : "";
  return `${found}${plural(undecided, "tensor")} ${undecided === 1 ? "has" : "have"} not been compared in full, and may have changed.`;
}
