/** The panel of one tensor, or of the difference of two. */

import type { TensorInfo } from "zstn";
import type { Engine } from "../engine/client.js";
import type { Description, Reference, Shading } from "../engine/protocol.js";
import { button, select, element, dataValue } from "../page/element.js";
import { formatBytes, formatCount, formatShare, plural } from "../page/format.js";
import { announce, errorBox } from "../page/notice.js";
import { isAbort } from "../page/error-text.js";
import type { Activities } from "../network/activity.js";
import { byteBreakdownTable } from "../overview/byte-breakdown.js";
import { charts } from "./charts.js";
import { figures } from "./figures.js";
import { Heatmap } from "./heatmap.js";
import { ValueTable } from "./value-table.js";
import { Viewport } from "./viewport.js";

/** How much may be fetched for one view of the heatmap, in bytes of the tensor. */
const VIEW_BYTES = 16 << 20;
/** From this many cells per pixel on, magnitudes show more than means, which are all near zero. */
const CROWDED = 3;
const PIXELS = 900 * 380;

export interface PanelOptions {
  readonly engine: Engine;
  readonly activities: Activities;
  readonly of: Reference;
  readonly minus?: Reference | undefined;
  readonly info: TensorInfo;
  readonly title: string;
  readonly signal: AbortSignal;
  /** Links the view to another panel of the same shape. */
  readonly shareView?: (rows: number, columns: number) => Viewport;
}

export class TensorPanel {
  readonly node = element("div", { class: "panel" });
  readonly #options: PanelOptions;
  readonly #sampled = element("div", { class: "sampled" });
  readonly #figures = element("div", {});
  readonly #heatmaps = element("div", {});
  readonly #charts = element("div", { class: "cards charts" });
  readonly #values = element("div", {});
  #heatmap: Heatmap | undefined;

  constructor(options: PanelOptions) {
    this.#options = options;
    this.node.append(this.#sampled, this.#figures, this.#heatmaps, this.#charts, this.#values);
  }

  /** Reads the tensor, or a sample of a large one, and shows it. */
  async show(whole = false): Promise<void> {
    const { engine, activities, of, minus, info, title, signal } = this.#options;
    if (info.byteLength === 0) {
      this.node.replaceChildren(element("p", { class: "notice" }, "This tensor is empty."));
      return;
    }
    this.node.setAttribute("aria-busy", "true");
    if (!this.#heatmap) this.#sampled.replaceChildren(element("p", { class: "reading" }, `Reading ${of.tensor} …`));
    try {
      const description = await activities.run(whole ? `All of ${title}` : title, (options) => engine.call("describe", { of, minus, whole }, options), signal);
      this.#present(description);
      announce(`${title} has been read.`);
    } catch (error) {
      if (signal.aborted) return;
      const again = { label: "Retry", act: () => void this.show(whole) };
      const stopped = isAbort(error) ? new Error("Cancelled.") : error;
      this.#sampled.replaceChildren(errorBox(stopped, [again]));
    } finally {
      this.node.removeAttribute("aria-busy");
    }
  }

  #present(description: Description): void {
    const { info } = this.#options;
    const complete = description.rowsRead >= description.rows;
    this.#sampled.replaceChildren(...this.#sampleNote(description, complete));
    if (description.rowsRead === 0) return;
    this.#figures.replaceChildren(figures(description));
    this.#charts.replaceChildren(...charts(description, info));
    if (!this.#options.minus) void this.#showShares();
    if (this.#heatmap) return this.#heatmap.refresh();
    this.#showHeatmap(description);
  }

  /** Shows the byte breakdown of the tensor, if it has a block table. */
  async #showShares(): Promise<void> {
    const { engine, of, info, signal } = this.#options;
    const breakdown = await engine.call("breakdown", { slot: of.slot, tensor: info.name }, { signal }).catch(() => undefined);
    if (!breakdown || breakdown.planes.length === 0 || signal.aborted) return;
    this.#charts.querySelector(".shares")?.remove();
    this.#charts.append(element("section", { class: "card shares" }, element("h3", {}, "Bytes by bit plane"), byteBreakdownTable(breakdown, "")));
  }

  #sampleNote({ rowsRead, rows }: Description, complete: boolean): (HTMLElement | string)[] {
    const { info } = this.#options;
    if (isPacked(info)) {
      return [element("p", { class: "notice" }, `${info.dtype} packs several values into a byte; the stored bytes are shown.`)];
    }
    if (complete) return [];
    const all = button(`Load all (${formatBytes(info.storedLength)})`, () => void this.show(true));
    const words =
      rowsRead === 0
        ? [`This tensor can only be loaded whole (${formatBytes(info.storedLength)}).`]
        : ["Estimated from ", dataValue(rowsRead, `${formatCount(rowsRead)} of ${plural(rows, "row")}`, { "data-sampled": "rows" }), ` (${formatShare(rowsRead / rows)}).`];
    return [element("p", { class: "notice" }, element("span", {}, ...words), all)];
  }

  #showHeatmap({ rows, columns, count }: Description): void {
    const { engine, activities, of, minus, info, title, signal, shareView } = this.#options;
    const viewport = shareView?.(rows, columns) ?? new Viewport(rows, columns);
    const table = new ValueTable({ engine, activities, of, minus, rows, columns, count: elementsIn(info), signal });
    const shading: Shading = count / PIXELS > CROWDED ? "magnitude" : "value";
    const maxRows = info.byteLength <= VIEW_BYTES ? rows : Math.max(1, Math.floor((VIEW_BYTES / info.byteLength) * rows));
    const onPick = (row: number, column: number) => table.go(row, column);
    const heatmap = new Heatmap({ engine, activities, of, minus, viewport, maxRows, label: `Heatmap of ${title}`, signal, onPick }, shading);
    const by = select("Show", [["value", "Mean value"], ["magnitude", "RMS magnitude"]], shading, (value) => (heatmap.shading = value as Shading));
    const zoom = (label: string, text: string, act: () => void) => button(text, act, { class: "button small", "aria-label": label });
    const controls = element("div", { class: "buttons" }, by, zoom("Zoom in", "+", () => viewport.zoom(2)), zoom("Zoom out", "−", () => viewport.zoom(0.5)), zoom("Show all", "All", () => viewport.reset()));
    this.#heatmap = heatmap;
    this.#heatmaps.replaceChildren(element("section", { class: "card wide" }, element("div", { class: "card-head" }, element("h2", {}, "Heatmap"), controls), heatmap.node));
    this.#values.replaceChildren(table.node);
    heatmap.refresh();
    table.go(0, 0);
  }
}

/** Returns whether several values share a byte. */
const isPacked = ({ dtype }: TensorInfo): boolean => /^F[46](_|$)/.test(dtype);

/** Returns the number of cells of the heatmap: bytes for packed types, two numbers for a complex one. */
function elementsIn(info: TensorInfo): number {
  const values = info.shape.reduce((product, size) => product * size, 1);
  return isPacked(info) ? info.byteLength : info.dtype === "C64" ? 2 * values : values;
}
