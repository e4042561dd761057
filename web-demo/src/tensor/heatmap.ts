/** The heatmap: a matrix as an image that can be panned and zoomed. It shows the rows in memory at once, and fetches the others in view. */

import type { Engine } from "../engine/client.js";
import type { Area, Raster, Reference, Shading } from "../engine/protocol.js";
import { colour, darkScheme, element, fitCanvas } from "../page/element.js";
import { formatCount, formatValue } from "../page/format.js";
import { showError } from "../page/notice.js";
import type { Activities } from "../network/activity.js";
import { attachGestures } from "./gestures.js";
import type { Viewport } from "./viewport.js";

/** How far the image extends beyond the view on each side, as a fraction of it, so that panning shows no blanks. */
const MARGIN = 0.25;
/** How long the view must be still before rows are fetched, in milliseconds. */
const STILL_MS = 140;

export interface HeatmapOptions {
  readonly engine: Engine;
  readonly activities: Activities;
  readonly of: Reference;
  readonly minus?: Reference | undefined;
  readonly viewport: Viewport;
  /** The maximum number of rows fetched for a view. */
  readonly maxRows: number;
  readonly label: string;
  readonly signal: AbortSignal;
  readonly onPick: (row: number, column: number) => void;
}

interface Picture {
  readonly area: Area;
  readonly image: HTMLCanvasElement;
}

export class Heatmap {
  readonly node: HTMLElement;
  readonly #options: HeatmapOptions;
  readonly #canvas: HTMLCanvasElement;
  readonly #state = element("p", { class: "caption", role: "status" });
  readonly #legend = element("p", { class: "legend" });
  #shading: Shading;
  #whole: Picture | undefined;
  #current: Picture | undefined;
  #frame = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #busy = false;
  #again = false;
  #sharpening: AbortController | undefined;

  constructor(options: HeatmapOptions, shading: Shading) {
    this.#options = options;
    this.#shading = shading;
    const help = "Arrow keys move, plus and minus zoom, 0 shows all, Enter shows the values in the middle.";
    this.#canvas = element("canvas", { class: "heatmap", tabIndex: 0, role: "application", "aria-label": `${options.label}. ${help}` });
    this.node = element("figure", { class: "heatmap-box" }, this.#canvas, element("figcaption", {}, this.#state, this.#legend));
    attachGestures(this.#canvas, options.viewport, (across, down) => this.#pick(across, down));
    options.viewport.onChange(() => this.#moved());
    darkScheme.addEventListener("change", () => this.#forget(), { signal: options.signal });
    new ResizeObserver(() => this.#moved()).observe(this.#canvas);
  }

  set shading(shading: Shading) {
    this.#shading = shading;
    this.#forget();
  }

  /** Renders again, since more rows are in memory. */
  refresh(): void {
    this.#forget();
  }

  #forget(): void {
    this.#whole = undefined;
    void this.#render();
    this.#moved();
  }

  #moved(): void {
    if (this.#frame === 0) {
      this.#frame = requestAnimationFrame(() => {
        this.#frame = 0;
        this.#draw();
      });
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#sharpen(), STILL_MS);
    void this.#render();
  }

  /** Draws the current image, however coarse. */
  #draw(): void {
    const canvas = fitCanvas(this.#canvas);
    if (!canvas) return;
    const { ctx, width, height } = canvas;
    ctx.fillStyle = colour("map-empty");
    ctx.fillRect(0, 0, width, height);
    ctx.imageSmoothingEnabled = false;
    const { area } = this.#options.viewport;
    const [x, y] = [width / (area.columnEnd - area.columnBegin), height / (area.rowEnd - area.rowBegin)];
    for (const picture of [this.#whole, this.#current]) {
      if (!picture) continue;
      const { area: of, image } = picture;
      ctx.drawImage(image, (of.columnBegin - area.columnBegin) * x, (of.rowBegin - area.rowBegin) * y, (of.columnEnd - of.columnBegin) * x, (of.rowEnd - of.rowBegin) * y);
    }
  }

  /** Renders the view from the rows in memory, and again if the view has moved meanwhile. */
  async #render(): Promise<void> {
    if (this.#busy) {
      this.#again = true;
      return;
    }
    this.#busy = true;
    try {
      do {
        this.#again = false;
        const raster = await this.#raster(!this.#whole, false, this.#options.signal);
        const picture = pictureOf(raster);
        if (!this.#whole) {
          this.#whole = picture;
          this.#again = !this.#options.viewport.isAll;
        }
        this.#current = picture;
        this.#say(raster);
        this.#draw();
      } while (this.#again);
    } catch (error) {
      if (!this.#options.signal.aborted) showError(error);
    } finally {
      this.#busy = false;
    }
  }

  /** Fetches the rows in view, unless there are too many. */
  async #sharpen(): Promise<void> {
    const { viewport, maxRows, activities, signal } = this.#options;
    this.#sharpening?.abort();
    if (signal.aborted || viewport.area.rowEnd - viewport.area.rowBegin > maxRows) return;
    const own = new AbortController();
    this.#sharpening = own;
    try {
      const either = AbortSignal.any([own.signal, signal]);
      const raster = await activities.run("Rows in view", (options) => this.#raster(false, true, options.signal, options.onStep), either);
      this.#current = pictureOf(raster);
      this.#say(raster);
      this.#draw();
    } catch (error) {
      if (!own.signal.aborted && !signal.aborted) showError(error);
    }
  }

  #raster(whole: boolean, fetch: boolean, signal: AbortSignal, onStep?: (step: { loadedBytes: number; totalBytes: number }) => void): Promise<Raster> {
    const { engine, of, minus, viewport } = this.#options;
    const density = Math.min(devicePixelRatio, 2);
    const { rowBegin, rowEnd, columnBegin, columnEnd } = viewport.area;
    const margin = whole || fetch ? 0 : MARGIN;
    const [down, across] = [(rowEnd - rowBegin) * margin, (columnEnd - columnBegin) * margin];
    const area = whole ? viewport.all : { rowBegin: rowBegin - down, rowEnd: rowEnd + down, columnBegin: columnBegin - across, columnEnd: columnEnd + across };
    const width = Math.round(this.#canvas.clientWidth * density * (1 + 2 * margin)) || 600;
    const height = Math.round(this.#canvas.clientHeight * density * (1 + 2 * margin)) || 300;
    return engine.call("raster", { of, minus, area, width, height, shading: this.#shading, dark: darkScheme.matches, fetch }, { signal, onStep });
  }

  #say({ complete, limit }: Raster): void {
    const { area, rows, columns } = this.#options.viewport;
    const range = (begin: number, end: number) => `${formatCount(Math.floor(begin))}–${formatCount(Math.ceil(end) - 1)}`;
    const where = `Rows ${range(area.rowBegin, area.rowEnd)} of ${formatCount(rows)}, columns ${range(area.columnBegin, area.columnEnd)} of ${formatCount(columns)}`;
    const state = complete ? "full detail" : "sampled – zoom in for full detail";
    this.#state.textContent = `${where}; ${state}`;
    this.#state.dataset["complete"] = String(complete);
    const scale = element("i", { class: this.#shading, "aria-hidden": "true" });
    const low = this.#shading === "value" ? formatValue(-limit, 2) : "0";
    this.#legend.replaceChildren(low, scale, formatValue(limit, 2));
  }

  #pick(across: number, down: number): void {
    const { rowBegin, rowEnd, columnBegin, columnEnd } = this.#options.viewport.area;
    this.#options.onPick(Math.floor(rowBegin + down * (rowEnd - rowBegin)), Math.floor(columnBegin + across * (columnEnd - columnBegin)));
  }
}

function pictureOf({ area, width, height, rgba }: Raster): Picture {
  const image = element("canvas", { width, height });
  image.getContext("2d")?.putImageData(new ImageData(rgba, width, height), 0, 0);
  return { area, image };
}
