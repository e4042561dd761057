/** The panel of one tensor, or of the difference of two. */

import type { Description } from "../engine/protocol.js";
import { button, element, dataValue } from "../page/element.js";
import { formatBytes, formatCount, formatShare, plural } from "../page/format.js";
import { announce, errorBox } from "../page/notice.js";
import { isAbort } from "../page/error-text.js";
import { byteBreakdownTable } from "../overview/byte-breakdown.js";
import { charts } from "./charts.js";
import { figures, isComplete } from "./figures.js";
import { levelsCard } from "./levels-card.js";
import { verdictOf } from "./levels-verdict.js";
import type { PanelOptions } from "./panel-options.js";
import { matrixCard, vectorCard } from "./plot-card.js";
import type { PlotCard } from "./plot-card.js";
import { ValueTable } from "./value-table.js";
import { Viewport } from "./viewport.js";

export class TensorPanel {
  readonly node = element("div", { class: "panel" });
  readonly #options: PanelOptions;
  readonly #sampled = element("div", { class: "sampled" });
  readonly #figures = element("div", { class: "figures-box" });
  readonly #plots = element("div", {});
  readonly #charts = element("div", { class: "cards charts" });
  readonly #values = element("div", { class: "values-box" });
  #card: PlotCard | undefined;

  constructor(options: PanelOptions) {
    this.#options = options;
    this.node.append(this.#sampled, this.#figures, this.#plots, this.#charts, this.#values);
  }

  /**
   * Reads the tensor, or a sample of a large one, and shows it. Resolves to its description; `undefined` for an empty
   * tensor or after an error.
   */
  async show(whole = false): Promise<Description | undefined> {
    const { engine, activities, of, minus, info, title, signal } = this.#options;
    if (info.byteLength === 0) {
      this.node.replaceChildren(element("p", { class: "notice" }, "This tensor is empty."));
      return undefined;
    }
    this.node.setAttribute("aria-busy", "true");
    if (!this.#card) this.#sampled.replaceChildren(element("p", { class: "reading" }, `Reading ${of.tensor} …`));
    try {
      const description = await activities.run(whole ? `All of ${title}` : title, (options) => engine.call("describe", { of, minus, whole }, options), signal);
      this.#present(description);
      announce(`${title} has been read.`);
      return description;
    } catch (error) {
      if (signal.aborted) return undefined;
      const again = { label: "Retry", act: () => void this.show(whole) };
      const stopped = isAbort(error) ? new Error("Cancelled.") : error;
      this.#sampled.replaceChildren(errorBox(stopped, [again]));
      return undefined;
    } finally {
      this.node.removeAttribute("aria-busy");
    }
  }

  #present(description: Description): void {
    const { info } = this.#options;
    this.#sampled.replaceChildren(...this.#sampleNote(description));
    if (description.rowsRead === 0 && !description.stored) return;
    this.#figures.replaceChildren(figures(description));
    // A picture would require loading the whole tensor.
    if (description.rowsRead === 0) return;
    this.#charts.replaceChildren(...charts(description, info, this.#options.signal, this.#options.isOverlaid));
    if (!this.#options.minus && !this.#options.of.slice?.length) void this.#showShares();
    if (this.#card) this.#card.refresh();
    else this.#showPlot(description);
    if (!this.#options.minus) void this.#showLevels();
  }

  /** Shows whether the values that were read look quantised. */
  async #showLevels(): Promise<void> {
    const { engine, of, info, signal } = this.#options;
    const line = element("p", { class: "verdict" }, "\u00a0");
    this.#figures.append(line);
    // The worker draws the picture first.
    await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    if (signal.aborted) return;
    const levels = await engine.call("levels", { of }, { signal }).catch(() => undefined);
    if (!levels || signal.aborted || !line.isConnected) return;
    const verdict = verdictOf(levels, info);
    line.textContent = verdict.title;
    this.#charts.append(levelsCard(verdict, levels));
  }

  /** Shows the byte breakdown of the tensor, if it has a block table. */
  async #showShares(): Promise<void> {
    const { engine, of, info, signal } = this.#options;
    const breakdown = await engine.call("breakdown", { slot: of.slot, tensor: info.name, generation: of.generation }, { signal }).catch(() => undefined);
    if (!breakdown || breakdown.planes.length === 0 || signal.aborted) return;
    this.#charts.querySelector(".shares")?.remove();
    this.#charts.append(element("section", { class: "card shares" }, element("h3", {}, "Bytes by bit plane"), byteBreakdownTable(breakdown, "")));
  }

  #sampleNote(description: Description): HTMLElement[] {
    const { info } = this.#options;
    const { rowsRead, rows, columns, stored, costBytes } = description;
    if (isComplete(description)) return [];
    // The stored length of a copy is in the base, not in this file.
    const size = formatBytes(costBytes ?? (info.base === "copy" ? info.byteLength : info.storedLength));
    const all = button(`Load all (${size})`, () => void this.show(true));
    const unit = columns === 1 ? "value" : "row";
    const words =
      rowsRead === 0
        ? [`This tensor can only be loaded whole (${size}).`]
        : [stored ? "The figures are exact, from the file. Charts are estimated from " : "Estimated from ", dataValue(rowsRead, `${formatCount(rowsRead)} of ${plural(rows, unit)}`, { "data-sampled": "rows" }), ` (${formatShare(rowsRead / rows)}).${stored ? "" : " ± is a 95 % margin, as far as the other rows are like these."}`];
    return [element("p", { class: "notice" }, element("span", {}, ...words), all)];
  }

  #showPlot({ rows, columns }: Description): void {
    const { engine, activities, of, minus, signal, shareView } = this.#options;
    const isVector = columns === 1;
    const viewport = isVector ? (shareView?.(1, rows) ?? new Viewport(1, rows)) : (shareView?.(rows, columns) ?? new Viewport(rows, columns));
    const table = new ValueTable({ engine, activities, of, minus, rows, columns, signal });
    const card = (isVector ? vectorCard : matrixCard)({ ...this.#options, viewport, onPick: (row, column) => table.go(row, column) });
    this.#card = card;
    this.#plots.replaceChildren(card.node, ...(this.#options.layers ? [this.#options.layers] : []));
    this.#values.replaceChildren(table.node);
    card.refresh();
    const [row, column] = card.start;
    table.go(row, column);
  }
}
