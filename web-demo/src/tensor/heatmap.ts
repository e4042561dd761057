/**
 * The heatmap: a matrix as an image that can be panned and zoomed. It shows the rows in memory immediately, and fetches
 * the other visible rows.
 */

import type { Engine } from "../engine/client.js";
import type { Area, Probe, Raster, Reference, Shading } from "../engine/protocol.js";
import { darkScheme } from "../page/appearance.js";
import { colour, element, fitCanvas } from "../page/element.js";
import { formatCount, formatValue } from "../page/format.js";
import { announce, showError } from "../page/notice.js";
import type { Activities } from "../network/activity.js";
import { drawAxis } from "./axes.js";
import { attachGestures } from "./gestures.js";
import { crossing, hatching } from "./hatching.js";
import { legend } from "./legend.js";
import { drawMarginal, largest } from "./marginal.js";
import { cellsText } from "./cells-text.js";
import { Pin } from "./pin.js";
import { ReadOut } from "./read-out.js";
import type { SharedScale } from "./shared-scale.js";
import type { Viewport } from "./viewport.js";

/** The margin of the image beyond the view on each side, as a fraction of the view, so that panning shows no blanks. */
const MARGIN = 0.25;
/** The time that the view must be still before rows are fetched, in milliseconds. */
const STILL_MS = 140;
/** Above this number of cells per pixel, `auto` shows magnitudes, because means are then all near zero. */
const CROWDED = 1.5;
const HINT_MS = 1800;

/** The shading of pixels; `auto` depends on the number of cells per pixel. */
export type ShadingChoice = Shading | "auto";

export interface HeatmapOptions {
  readonly engine: Engine;
  readonly activities: Activities;
  readonly of: Reference;
  readonly minus?: Reference | undefined;
  readonly viewport: Viewport;
  /** The maximum number of rows that are fetched for one view. */
  readonly maxRows: number;
  readonly label: string;
  readonly signal: AbortSignal;
  /** The colour scale that this heatmap shares with other heatmaps. */
  readonly scale?: SharedScale | undefined;
  /** Called when a cell has been pinned or the pin has been removed. */
  readonly onPin: (cell: readonly [number, number] | undefined) => void;
  /** Called when the view has stopped moving. */
  readonly onSettle: () => void;
}

interface Picture {
  readonly raster: Raster;
  readonly image: HTMLCanvasElement;
  /** An image of the pixels that are not finite, if there are any. */
  readonly marks: HTMLCanvasElement | undefined;
}

export class Heatmap {
  readonly node: HTMLElement;
  readonly map: HTMLCanvasElement;
  readonly rowAxis = element("canvas", { class: "axis rows", "aria-hidden": "true" });
  readonly columnAxis = element("canvas", { class: "axis columns", "aria-hidden": "true" });
  readonly rowMarginal = element("canvas", { class: "marginal rows", role: "img" });
  readonly columnMarginal = element("canvas", { class: "marginal columns", role: "img" });
  readonly #options: HeatmapOptions;
  readonly #state = element("p", { class: "caption" });
  readonly #legend = element("p", { class: "legend" });
  readonly #scale = element("p", { class: "marginal-scale" });
  readonly #hint = element("p", { class: "hint", hidden: true }, "Click the heatmap, then scroll to zoom");
  readonly #readOut = new ReadOut();
  readonly #pin: Pin;
  #choice: ShadingChoice;
  #whole: Picture | undefined;
  #current: Picture | undefined;
  #frame = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #hintTimer: ReturnType<typeof setTimeout> | undefined;
  #busy = false;
  #again = false;
  #sharpening: AbortController | undefined;
  #probing = 0;
  #announced: string | undefined;

  constructor(options: HeatmapOptions, choice: ShadingChoice) {
    this.#options = options;
    this.#choice = choice;
    const { viewport, signal } = options;
    const help = "Arrow keys move, plus and minus zoom, F shows all, Enter pins the value in the middle, Shift and arrow keys move the pin.";
    this.map = element("canvas", { class: "heatmap", tabIndex: 0, role: "application", "aria-label": `${options.label}. ${help}` });
    this.#pin = new Pin({ ...options, map: this.map });
    const box = element("div", { class: "map" }, this.map, ...this.#readOut.nodes, this.#hint, ...this.#pin.nodes);
    const plot = element("div", { class: "plot" }, this.columnMarginal, this.#scale, this.rowAxis, box, this.rowMarginal, this.columnAxis);
    this.node = element("figure", { class: "heatmap-box" }, plot, element("figcaption", {}, this.#state, this.#legend));
    attachGestures(this.map, viewport, {
      onClick: (across, down) => this.pin(this.#cellAt(across, down)),
      onIgnoredWheel: () => this.#showHint(),
      onKey: (event) => this.#pin.onKey(event, this.#cellAt(0.5, 0.5)),
    });
    this.map.addEventListener("pointermove", ({ offsetX, offsetY }) => void this.#hover(offsetX, offsetY));
    this.map.addEventListener("pointerleave", () => this.#leave());
    viewport.onChange(() => this.#moved());
    darkScheme.addEventListener("change", () => this.refresh(), { signal });
    new ResizeObserver(() => {
      viewport.aspect = this.map.clientWidth / this.map.clientHeight;
      this.#moved();
    }).observe(this.map);
  }

  set shading(choice: ShadingChoice) {
    this.#choice = choice;
    this.refresh();
  }

  /** The raster of the displayed picture; `undefined` before the first one. */
  get raster(): Raster | undefined {
    return this.#current?.raster;
  }

  get shading(): Shading {
    if (this.#choice !== "auto") return this.#choice;
    const { rowBegin, rowEnd, columnBegin, columnEnd } = this.#options.viewport.inside;
    const pixels = Math.max(1, this.map.clientWidth * this.map.clientHeight);
    return ((rowEnd - rowBegin) * (columnEnd - columnBegin)) / pixels > CROWDED ? "rms" : "mean";
  }

  get caption(): string {
    return this.#state.textContent ?? "";
  }

  /** Renders again after more rows have been read. */
  refresh(): void {
    this.#whole = undefined;
    void this.#render();
    this.#moved();
  }

  /** Pins a cell and shows the values around it; `undefined` removes the pin. */
  pin(cell: readonly [number, number] | undefined): void {
    this.#pin.set(cell);
  }

  #showHint(): void {
    this.#hint.hidden = false;
    clearTimeout(this.#hintTimer);
    this.#hintTimer = setTimeout(() => (this.#hint.hidden = true), HINT_MS);
  }

  #leave(): void {
    this.#probing += 1;
    this.#readOut.hide();
  }

  /** Shows the cells that the pixel under the pointer represents. */
  async #hover(x: number, y: number): Promise<void> {
    const { engine, of, minus, viewport, signal } = this.#options;
    const { clientWidth: width, clientHeight: height } = this.map;
    const { area } = viewport;
    const [across, down] = [(area.columnEnd - area.columnBegin) / width, (area.rowEnd - area.rowBegin) / height];
    const [row, column] = [Math.floor(area.rowBegin + y * down), Math.floor(area.columnBegin + x * across)];
    if (row < 0 || column < 0 || row >= viewport.rows || column >= viewport.columns || signal.aborted) return this.#leave();
    const cells: Area = {
      rowBegin: row,
      rowEnd: Math.min(viewport.rows, Math.max(row + 1, Math.floor(area.rowBegin + (y + 1) * down))),
      columnBegin: column,
      columnEnd: Math.min(viewport.columns, Math.max(column + 1, Math.floor(area.columnBegin + (x + 1) * across))),
    };
    const own = ++this.#probing;
    this.#readOut.show(x, y, width, height, cellsText(cells, undefined));
    const found = await engine.call("probe", { of, minus, area: cells }, { signal }).catch((): Probe | undefined => undefined);
    if (own === this.#probing && found) this.#readOut.show(x, y, width, height, cellsText(cells, found));
  }

  #moved(): void {
    if (this.#frame === 0) {
      this.#frame = requestAnimationFrame(() => {
        this.#frame = 0;
        this.#draw();
      });
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#settled(), STILL_MS);
    void this.#render();
  }

  async #settled(): Promise<void> {
    this.#timer = undefined;
    if (this.#options.signal.aborted) return;
    if (this.#options.viewport.settle()) void this.#render();
    this.#options.onSettle();
    await this.#sharpen();
    this.#announce();
  }

  /** Announces the view to screen readers, unless it is moving or is the first view, which the panel announces. */
  #announce(): void {
    if (this.#timer !== undefined || this.caption === "" || this.caption === this.#announced) return;
    if (this.#announced !== undefined && !this.#options.signal.aborted) announce(this.caption);
    this.#announced = this.caption;
  }

  /** Draws the current image, even if it is coarse. */
  #draw(): void {
    const canvas = fitCanvas(this.map);
    if (!canvas) return;
    const { ctx, width, height } = canvas;
    const { area, inside, rows, columns } = this.#options.viewport;
    const [x, y] = [width / (area.columnEnd - area.columnBegin), height / (area.rowEnd - area.rowBegin)];
    ctx.clearRect(0, 0, width, height);
    ctx.fillStyle = hatching(ctx);
    ctx.fillRect((inside.columnBegin - area.columnBegin) * x, (inside.rowBegin - area.rowBegin) * y, (inside.columnEnd - inside.columnBegin) * x, (inside.rowEnd - inside.rowBegin) * y);
    ctx.imageSmoothingEnabled = false;
    for (const picture of [this.#whole, this.#current]) {
      if (!picture) continue;
      const { raster: { area: of }, image, marks } = picture;
      const place = [(of.columnBegin - area.columnBegin) * x, (of.rowBegin - area.rowBegin) * y, (of.columnEnd - of.columnBegin) * x, (of.rowEnd - of.rowBegin) * y] as const;
      // The finer picture replaces the coarse one. Its gaps are rows that have not been read.
      if (picture === this.#current && picture !== this.#whole) {
        ctx.fillStyle = colour("map-empty");
        ctx.fillRect(...place);
        ctx.fillStyle = hatching(ctx);
        ctx.fillRect(...place);
      }
      ctx.drawImage(image, ...place);
      if (marks) this.#cross(ctx, marks, place);
    }
    drawAxis(this.rowAxis, area.rowBegin, area.rowEnd, rows, "down");
    drawAxis(this.columnAxis, area.columnBegin, area.columnEnd, columns, "across");
    this.#drawMarginals();
    this.#pin.place();
  }

  /** Draws a pattern over the opaque pixels of `marks`. */
  #cross(ctx: CanvasRenderingContext2D, marks: HTMLCanvasElement, place: readonly [number, number, number, number]): void {
    const layer = element("canvas", { width: this.map.width, height: this.map.height });
    const pen = layer.getContext("2d");
    if (!pen) return;
    pen.setTransform(ctx.getTransform());
    pen.imageSmoothingEnabled = false;
    pen.drawImage(marks, ...place);
    pen.globalCompositeOperation = "source-in";
    pen.fillStyle = crossing(pen);
    pen.fillRect(0, 0, this.map.width, this.map.height);
    ctx.drawImage(layer, 0, 0, this.map.clientWidth, this.map.clientHeight);
  }

  #drawMarginals(): void {
    if (!this.#current) return;
    const { rowRms, columnRms, rowMarks, columnMarks, area: of } = this.#current.raster;
    const { area } = this.#options.viewport;
    const limit = largest(rowRms, columnRms) || 1;
    drawMarginal(this.rowMarginal, { values: rowRms, marks: rowMarks, begin: of.rowBegin, end: of.rowEnd }, area.rowBegin, area.rowEnd, limit, "down");
    drawMarginal(this.columnMarginal, { values: columnRms, marks: columnMarks, begin: of.columnBegin, end: of.columnEnd }, area.columnBegin, area.columnEnd, limit, "across");
    // Without finite values there is no scale.
    this.#scale.replaceChildren(...(largest(rowRms, columnRms) > 0 ? ["RMS to", element("br"), formatValue(limit, 2)] : []));
    this.rowMarginal.setAttribute("aria-label", `RMS by row, of the cells in view, up to ${formatValue(largest(rowRms))}`);
    this.columnMarginal.setAttribute("aria-label", `RMS by column, of the cells in view, up to ${formatValue(largest(columnRms))}`);
  }

  /** Renders the view from the rows in memory, and renders again if the view has moved in the meantime. */
  async #render(): Promise<void> {
    if (this.#busy) {
      this.#again = true;
      return;
    }
    this.#busy = true;
    try {
      do {
        this.#again = false;
        const isWhole = !this.#whole;
        const picture = pictureOf(await this.#raster(isWhole, false, this.#options.signal));
        this.#whole ??= picture;
        const isView = !isWhole || this.#options.viewport.isAll;
        this.#again ||= !isView;
        this.#show(picture);
        if (isView) this.#share(picture.raster);
      } while (this.#again);
    } catch (error) {
      if (!this.#options.signal.aborted) showError(error);
    } finally {
      this.#busy = false;
    }
  }

  /** Fetches the visible rows, unless there are too many. */
  async #sharpen(): Promise<void> {
    const { viewport: { inside }, maxRows, activities, signal } = this.#options;
    this.#sharpening?.abort();
    if (signal.aborted || this.#current?.raster.isComplete || inside.rowEnd - inside.rowBegin > maxRows) return;
    const own = new AbortController();
    this.#sharpening = own;
    try {
      const either = AbortSignal.any([own.signal, signal]);
      await activities.run("Rows in view", (options) => this.#raster(false, true, options.signal, options.onStep), either);
      await this.#render();
    } catch (error) {
      if (!own.signal.aborted && !signal.aborted) showError(error);
    }
  }

  #raster(whole: boolean, fetch: boolean, signal: AbortSignal, onStep?: (step: { loadedBytes: number; totalBytes: number }) => void): Promise<Raster> {
    const { engine, of, minus, viewport } = this.#options;
    const density = Math.min(devicePixelRatio, 2);
    const view = whole ? viewport.all : viewport.inside;
    const margin = whole || fetch ? 0 : MARGIN;
    const [down, across] = [(view.rowEnd - view.rowBegin) * margin, (view.columnEnd - view.columnBegin) * margin];
    const area = {
      rowBegin: Math.max(0, view.rowBegin - down),
      rowEnd: Math.min(viewport.rows, view.rowEnd + down),
      columnBegin: Math.max(0, view.columnBegin - across),
      columnEnd: Math.min(viewport.columns, view.columnEnd + across),
    };
    const shown = whole ? viewport.all : viewport.area;
    const width = Math.round(((this.map.clientWidth * density) / (shown.columnEnd - shown.columnBegin)) * (area.columnEnd - area.columnBegin)) || 600;
    const height = Math.round(((this.map.clientHeight * density) / (shown.rowEnd - shown.rowBegin)) * (area.rowEnd - area.rowBegin)) || 300;
    return engine.call("raster", { of, minus, area, view, width, height, shading: this.shading, limit: this.#options.scale?.limit(this.shading), dark: darkScheme.matches, fetch }, { signal, onStep });
  }

  readonly #recolour = () => void this.#render();

  /**
   * Reports the limit of the current view to the shared scale. The picture is rendered again if the shared limit has
   * changed.
   */
  #share({ limit, ownLimit }: Raster): void {
    const { scale } = this.#options;
    if (!scale) return;
    scale.report(this.#recolour, this.shading, ownLimit);
    this.#again ||= scale.limit(this.shading) !== limit;
  }

  #show(picture: Picture): void {
    this.#current = picture;
    const { inside, rows, columns } = this.#options.viewport;
    const { isComplete } = picture.raster;
    const range = (begin: number, end: number) => `${formatCount(Math.floor(begin))}–${formatCount(Math.ceil(end) - 1)}`;
    const where = `Rows ${range(inside.rowBegin, inside.rowEnd)} of ${formatCount(rows)}, columns ${range(inside.columnBegin, inside.columnEnd)} of ${formatCount(columns)}`;
    this.#state.textContent = `${where}; ${isComplete ? "full detail" : "sampled – zoom in for full detail"}`;
    this.#state.dataset["complete"] = String(isComplete);
    this.#legend.replaceChildren(...legend(picture.raster, this.shading));
    this.#draw();
  }

  #cellAt(across: number, down: number): readonly [number, number] | undefined {
    const { area, rows, columns } = this.#options.viewport;
    const cell = [Math.floor(area.rowBegin + down * (area.rowEnd - area.rowBegin)), Math.floor(area.columnBegin + across * (area.columnEnd - area.columnBegin))] as const;
    return cell[0] >= 0 && cell[1] >= 0 && cell[0] < rows && cell[1] < columns ? cell : undefined;
  }
}

function pictureOf(raster: Raster): Picture {
  const { width, height, rgba, marks } = raster;
  const imageOf = (pixels: Uint8ClampedArray<ArrayBuffer>): HTMLCanvasElement => {
    const image = element("canvas", { width, height });
    image.getContext("2d")?.putImageData(new ImageData(pixels, width, height), 0, 0);
    return image;
  };
  return { raster, image: imageOf(rgba), marks: marks && imageOf(marks) };
}
