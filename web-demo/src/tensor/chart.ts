/** Charts, drawn with uPlot in the colours of the page. */

import type uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { darkScheme } from "../page/appearance.js";
import { colour, element } from "../page/element.js";
import { loadPlot } from "./load-plot.js";

export interface ChartData {
  readonly x: ArrayLike<number>;
  readonly y: ArrayLike<number>;
}

export interface ChartOptions {
  /** The label for assistive technology. */
  readonly label: string;
  /** The signal that destroys the chart when it aborts. */
  readonly signal: AbortSignal;
  readonly bars?: boolean;
  /** True if the y axis is logarithmic. */
  readonly log?: boolean;
  readonly stroke?: string;
  /** A second line with its own points. `otherStroke` is its colour. */
  readonly other?: ChartData;
  readonly otherStroke?: string;
  readonly formatX?: (value: number) => string;
  readonly formatY?: (value: number) => string;
}

const HEIGHT = 190;
const FONT = "11px ui-sans-serif, system-ui, sans-serif";

/** A chart that fills the width of its container. */
export class Chart {
  readonly node: HTMLElement;
  #data: ChartData;
  #options: ChartOptions;
  #plot: uPlot | undefined;
  #turn = 0;

  constructor(data: ChartData, options: ChartOptions) {
    this.#data = data;
    this.#options = options;
    this.node = element("div", { class: "chart", role: "img", "aria-label": options.label });
    const { signal } = options;
    const resized = new ResizeObserver(([entry]) => this.#fit(entry!.contentRect.width));
    resized.observe(this.node);
    darkScheme.addEventListener("change", () => void this.#draw(this.node.clientWidth), { signal });
    const destroy = () => {
      resized.disconnect();
      this.#plot?.destroy();
      this.#plot = undefined;
    };
    signal.addEventListener("abort", destroy, { once: true });
  }

  set log(log: boolean) {
    this.#options = { ...this.#options, log };
    void this.#draw(this.node.clientWidth);
  }

  set data(data: ChartData) {
    this.#data = data;
    void this.#draw(this.node.clientWidth);
  }

  #fit(width: number): void {
    if (width === 0 || !this.node.isConnected) return;
    if (this.#plot) this.#plot.setSize({ width, height: HEIGHT });
    else void this.#draw(width);
  }

  async #draw(width: number): Promise<void> {
    if (width === 0) return;
    const turn = (this.#turn += 1);
    const Plot = await loadPlot();
    if (turn !== this.#turn || this.#options.signal.aborted) return; // the chart was redrawn or destroyed in the meantime
    this.#plot?.destroy();
    const { bars, log, other, otherStroke = "double", stroke = "saved", formatX = short, formatY = short } = this.#options;
    const ink = colour(stroke);
    const axis = { stroke: colour("quiet"), font: FONT, grid: { stroke: colour("line-soft"), width: 1 }, ticks: { show: false } };
    const paths = bars ? Plot.paths.bars!({ size: [0.9, 40], gap: 0 }) : undefined;
    // A logarithmic axis cannot show zero.
    const y = log ? Array.from(this.#data.y, (value) => (value > 0 ? value : null)) : Array.from(this.#data.y);
    const line = { width: bars ? 0 : 1.25, points: { show: false }, spanGaps: other !== undefined };
    const own = [Array.from(this.#data.x), y] as uPlot.AlignedData;
    const data = other ? Plot.join([own, [Array.from(other.x), Array.from(other.y)]]) : own;
    this.#plot = new Plot(
      {
        width,
        height: HEIGHT,
        padding: [10, 8, 0, 0],
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false }, points: { show: !bars } },
        scales: { x: { time: false }, y: log ? { distr: 3 } : { range: (_, _low, high) => [0, high > 0 ? high * 1.04 : 1] } },
        axes: [
          { ...axis, values: (_, ticks) => ticks.map(formatX), space: 60, size: 30 },
          { ...axis, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : formatY(tick))), size: 54 },
        ],
        series: [{}, { ...line, stroke: ink, ...(bars && { fill: ink }), ...(paths && { paths }) }, ...(other ? [{ ...line, stroke: colour(otherStroke) }] : [])],
        hooks: { setCursor: [(plot) => this.#say(plot)] },
      },
      data,
      this.node,
    );
    this.node.append(this.#readout);
  }

  readonly #readout = element("p", { class: "readout", "aria-hidden": "true" });

  #say({ cursor: { idx } }: uPlot): void {
    const { other, formatX = short, formatY = short } = this.#options;
    // The joined points of two lines have other positions than the points of the first line.
    this.#readout.textContent = idx === null || idx === undefined || other ? "" : `${formatX(this.#data.x[idx]!)}: ${formatY(this.#data.y[idx]!)}`;
  }
}

/** Formats a number for an axis: 0.00012 → "1.2e−4", 45000 → "45 k". */
export function short(value: number): string {
  const size = Math.abs(value);
  const text = size === 0 ? "0" : size < 1e-3 ? value.toExponential(1).replace(".0e", "e") : size < 1000 ? String(Number(value.toPrecision(3))) : size < 1e6 ? `${Number((value / 1e3).toPrecision(3))} k` : size < 1e9 ? `${Number((value / 1e6).toPrecision(3))} M` : value.toExponential(1).replace("e+", "e");
  return text.replaceAll("-", "−");
}
