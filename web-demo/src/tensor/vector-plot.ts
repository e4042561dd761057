/** A plot of a vector by index. It shows the values in memory immediately, and fetches the other visible values. */

import type { Engine } from "../engine/client.js";
import type { Reference, VectorSeries } from "../engine/protocol.js";
import { darkScheme } from "../page/appearance.js";
import { colour, element, fitCanvas } from "../page/element.js";
import { formatCount, formatValue } from "../page/format.js";
import { announce, showError } from "../page/notice.js";
import type { Activities } from "../network/activity.js";
import { AXIS_FONT, drawAxis, ticks } from "./axes.js";
import { attachGestures } from "./gestures.js";
import { crossing, hatching } from "./hatching.js";
import { ReadOut } from "./read-out.js";
import type { Viewport } from "./viewport.js";

const STILL_MS = 140;
const HINT_MS = 1800;
/** The radius of the dot for a single value, in CSS pixels. */
const DOT_RADIUS = 2;
/** The maximum number of visible values that are drawn as bars. */
const MAX_BARS = 128;

export interface VectorPlotOptions {
  readonly engine: Engine;
  readonly activities: Activities;
  readonly of: Reference;
  readonly minus?: Reference | undefined;
  /** The viewport, with one row and a column for each value. */
  readonly viewport: Viewport;
  /** The maximum number of values that are fetched for one view. */
  readonly maxValues: number;
  readonly label: string;
  readonly signal: AbortSignal;
  readonly onPick: (index: number) => void;
  readonly onSettle: () => void;
}

export class VectorPlot {
  readonly node: HTMLElement;
  readonly map: HTMLCanvasElement;
  readonly valueAxis = element("canvas", { class: "axis rows", "aria-hidden": "true" });
  readonly indexAxis = element("canvas", { class: "axis columns", "aria-hidden": "true" });
  readonly #options: VectorPlotOptions;
  readonly #state = element("p", { class: "caption" });
  readonly #hint = element("p", { class: "hint", hidden: true }, "Click the chart, then scroll to zoom");
  readonly #readOut = new ReadOut();
  #series: VectorSeries | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #hintTimer: ReturnType<typeof setTimeout> | undefined;
  #reading: AbortController | undefined;
  #reads = 0;
  #announced: string | undefined;

  constructor(options: VectorPlotOptions) {
    this.#options = options;
    const help = "Left and right move, plus and minus zoom, F shows all, Enter shows the values from the middle on.";
    this.map = element("canvas", { class: "line-plot", tabIndex: 0, role: "application", "aria-label": `${options.label}. ${help}` });
    const box = element("div", { class: "map" }, this.map, ...this.#readOut.nodes, this.#hint);
    this.node = element("figure", { class: "heatmap-box" }, element("div", { class: "plot vector" }, this.valueAxis, box, this.indexAxis), element("figcaption", {}, this.#state));
    attachGestures(this.map, options.viewport, {
      onClick: (across) => options.onPick(this.#indexAt(across)),
      onIgnoredWheel: () => this.#showHint(),
      onKey: () => false,
    });
    this.map.addEventListener("pointermove", ({ offsetX, offsetY }) => this.#hover(offsetX, offsetY));
    this.map.addEventListener("pointerleave", () => this.#readOut.hide());
    options.viewport.onChange(() => this.refresh());
    darkScheme.addEventListener("change", () => this.#draw(), { signal: options.signal });
    new ResizeObserver(() => this.refresh()).observe(this.map);
  }

  get caption(): string {
    return this.#state.textContent ?? "";
  }

  refresh(): void {
    void this.#read(false);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#settled(), STILL_MS);
  }

  async #settled(): Promise<void> {
    this.#timer = undefined;
    const { viewport, maxValues, signal, onSettle } = this.#options;
    if (signal.aborted) return;
    if (viewport.settle()) await this.#read(false);
    onSettle();
    const { columnBegin, columnEnd } = viewport.area;
    if (this.#series && !this.#series.isComplete && columnEnd - columnBegin <= maxValues) await this.#read(true);
    this.#announce();
  }

  /** Announces the view to screen readers, unless it is moving or is the first view, which the panel announces. */
  #announce(): void {
    if (this.#timer !== undefined || this.caption === "" || this.caption === this.#announced) return;
    if (this.#announced !== undefined && !this.#options.signal.aborted) announce(this.caption);
    this.#announced = this.caption;
  }

  async #read(fetch: boolean): Promise<void> {
    const { engine, activities, of, minus, viewport, signal } = this.#options;
    const { columnBegin: begin, columnEnd: end } = viewport.area;
    const bins = Math.max(1, Math.round(this.map.clientWidth * Math.min(devicePixelRatio, 2))) || 600;
    const own = ++this.#reads;
    this.#reading?.abort();
    const stop = (this.#reading = new AbortController());
    const either = AbortSignal.any([stop.signal, signal]);
    try {
      const request = { of, minus, begin, end, bins, fetch };
      const series = fetch ? await activities.run("Values in view", (options) => engine.call("vector", request, options), either) : await engine.call("vector", request, { signal: either });
      if (own !== this.#reads) return;
      this.#series = series;
      this.#draw();
    } catch (error) {
      if (!either.aborted) showError(error);
    }
  }

  #draw(): void {
    const fitted = fitCanvas(this.map);
    if (!fitted || !this.#series) return;
    const { ctx, width, height } = fitted;
    const { begin, end, mins, maxs, means, isComplete } = this.#series;
    const { area, columns } = this.#options.viewport;
    const scale = width / (area.columnEnd - area.columnBegin);
    const [low, high] = valueRange(this.#series);
    const y = (value: number) => height - ((value - low) / (high - low)) * height;
    const x = (bin: number) => (begin + (bin / means.length) * (end - begin) - area.columnBegin) * scale;
    const binWidth = x(1) - x(0);
    ctx.clearRect(0, 0, width, height);
    this.#drawGrid(ctx, width, height, low, high, y);
    // Bars start at zero, so zero must be visible.
    const isBars = end - begin <= MAX_BARS && low <= 0 && high >= 0;
    ctx.fillStyle = hatching(ctx);
    for (let bin = 0; bin < means.length; bin++) if (Number.isNaN(mins[bin])) ctx.fillRect(x(bin), 0, binWidth + 0.5, height);
    const zero = Math.max(0, Math.min(height, y(0)));
    ctx.fillStyle = crossing(ctx);
    for (let bin = 0; bin < means.length; bin++) if (!Number.isNaN(mins[bin]) && !Number.isFinite(means[bin])) ctx.fillRect(x(bin), 0, Math.max(2, binWidth), height);
    ctx.fillStyle = colour("saved");
    // If a bin has at most two values, they are its minimum and its maximum.
    const isDots = end - begin <= 2 * means.length;
    const gap = isBars ? Math.min(2, binWidth * 0.15) : 0;
    for (let bin = 0; bin < means.length; bin++) {
      const [top, bottom] = [y(maxs[bin]!), y(mins[bin]!)];
      if (!Number.isFinite(top) || !Number.isFinite(bottom)) continue;
      if (isBars) ctx.fillRect(x(bin) + gap / 2, Math.min(zero, top), Math.max(0.5, binWidth - gap), Math.max(1, Math.abs(bottom - zero)));
      else if (isDots || top === bottom) for (const value of new Set([top, bottom])) {
        ctx.beginPath();
        ctx.arc(x(bin + 0.5), value, DOT_RADIUS, 0, 2 * Math.PI);
        ctx.fill();
      } else ctx.fillRect(x(bin), top - 0.75, Math.max(1, binWidth), Math.max(1.5, bottom - top + 1.5));
    }
    drawAxis(this.indexAxis, area.columnBegin, area.columnEnd, columns, "across");
    const range = `Values ${formatCount(Math.floor(area.columnBegin))}–${formatCount(Math.ceil(area.columnEnd) - 1)} of ${formatCount(columns)}`;
    const isBinned = !isDots;
    this.#state.textContent = `${range}; ${isComplete ? (isBinned ? "range of the values at each pixel" : "every value") : "sampled – zoom in for full detail"}`;
    this.#state.dataset["complete"] = String(isComplete);
  }

  #drawGrid(ctx: CanvasRenderingContext2D, width: number, height: number, low: number, high: number, y: (value: number) => number): void {
    const axis = fitCanvas(this.valueAxis);
    axis?.ctx.clearRect(0, 0, axis.width, axis.height);
    for (const tick of ticks(low, high, Math.floor(height / 44), false)) {
      const line = Math.round(y(tick)) + 0.5;
      ctx.strokeStyle = colour(Math.abs(tick) < (high - low) * 1e-9 ? "bar" : "line-soft");
      ctx.beginPath();
      ctx.moveTo(0, line);
      ctx.lineTo(width, line);
      ctx.stroke();
      if (!axis) continue;
      axis.ctx.font = AXIS_FONT;
      axis.ctx.fillStyle = colour("quiet");
      axis.ctx.textAlign = "right";
      axis.ctx.textBaseline = "middle";
      axis.ctx.fillText(formatValue(Math.abs(tick) < (high - low) * 1e-9 ? 0 : tick, 3), axis.width - 6, Math.min(height - 6, Math.max(6, line)));
    }
  }

  #hover(offsetX: number, offsetY: number): void {
    const { clientWidth: width, clientHeight: height } = this.map;
    if (!this.#series) return;
    const { begin, end, mins, maxs, means } = this.#series;
    const { area } = this.#options.viewport;
    const index = area.columnBegin + (offsetX / width) * (area.columnEnd - area.columnBegin);
    const bin = Math.floor(((index - begin) / (end - begin)) * means.length);
    if (bin < 0 || bin >= means.length) return this.#readOut.hide();
    const from = begin + Math.floor((bin * (end - begin)) / means.length);
    const to = begin + Math.floor(((bin + 1) * (end - begin)) / means.length);
    const place = to - from === 1 ? `index ${formatCount(from)}` : `indices ${formatCount(from)}–${formatCount(to - 1)}`;
    const value = Number.isNaN(mins[bin]) ? "not read" : !Number.isFinite(means[bin]) ? "NaN or ∞" : mins[bin] === maxs[bin] ? formatValue(mins[bin]!) : `${formatValue(mins[bin]!)} to ${formatValue(maxs[bin]!)}`;
    this.#readOut.show(offsetX, offsetY, width, height, `${place} · ${value}`);
  }

  #showHint(): void {
    this.#hint.hidden = false;
    clearTimeout(this.#hintTimer);
    this.#hintTimer = setTimeout(() => (this.#hint.hidden = true), HINT_MS);
  }

  #indexAt(across: number): number {
    const { columnBegin, columnEnd } = this.#options.viewport.area;
    return Math.floor(columnBegin + across * (columnEnd - columnBegin));
  }
}

/**
 * Returns the range of the value axis: the range of the finite values with a small margin, extended to zero if zero is
 * near.
 */
function valueRange({ mins, maxs }: VectorSeries): [number, number] {
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const value of mins) if (Number.isFinite(value)) low = Math.min(low, value);
  for (const value of maxs) if (Number.isFinite(value)) high = Math.max(high, value);
  if (low > high) return [-1, 1];
  if (low > 0 && low < high - low) low = 0;
  if (high < 0 && -high < high - low) high = 0;
  const room = (high - low) * 0.06 || Math.abs(high) * 0.5 || 1;
  return [low === 0 ? 0 : low - room, high === 0 ? 0 : high + room];
}
