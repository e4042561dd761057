/** Charts, drawn with uPlot in the colours of the page. */

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { colour, darkScheme, element } from "../page/element.js";

export interface ChartData {
  readonly x: ArrayLike<number>;
  readonly y: ArrayLike<number>;
}

export interface ChartOptions {
  /** The accessible label. */
  readonly label: string;
  readonly bars?: boolean;
  /** Whether the y axis is logarithmic. */
  readonly log?: boolean;
  readonly stroke?: string;
  readonly formatX?: (value: number) => string;
  readonly formatY?: (value: number) => string;
}

const HEIGHT = 190;
const FONT = "11px ui-sans-serif, system-ui, sans-serif";

/** A chart that fills the width of its container. */
export class Chart {
  readonly node: HTMLElement;
  readonly #data: ChartData;
  #options: ChartOptions;
  #plot: uPlot | undefined;

  constructor(data: ChartData, options: ChartOptions) {
    this.#data = data;
    this.#options = options;
    this.node = element("div", { class: "chart", role: "img", "aria-label": options.label });
    new ResizeObserver(([entry]) => this.#fit(entry!.contentRect.width)).observe(this.node);
    darkScheme.addEventListener("change", () => this.#draw(this.node.clientWidth));
  }

  set log(log: boolean) {
    this.#options = { ...this.#options, log };
    this.#draw(this.node.clientWidth);
  }

  #fit(width: number): void {
    if (width === 0 || !this.node.isConnected) return;
    if (this.#plot) this.#plot.setSize({ width, height: HEIGHT });
    else this.#draw(width);
  }

  #draw(width: number): void {
    if (width === 0) return;
    this.#plot?.destroy();
    const { bars, log, stroke = "saved", formatX = short, formatY = short } = this.#options;
    const ink = colour(stroke);
    const axis = { stroke: colour("quiet"), font: FONT, grid: { stroke: colour("line-soft"), width: 1 }, ticks: { show: false } };
    const paths = bars ? uPlot.paths.bars!({ size: [0.9, 40], gap: 0 }) : undefined;
    // A logarithmic axis has no zero.
    const y = log ? Array.from(this.#data.y, (value) => (value > 0 ? value : null)) : Array.from(this.#data.y);
    this.#plot = new uPlot(
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
        series: [{}, { stroke: ink, width: bars ? 0 : 1.25, ...(bars && { fill: ink }), ...(paths && { paths }), points: { show: false } }],
        hooks: { setCursor: [(plot) => this.#say(plot)] },
      },
      [Array.from(this.#data.x), y] as uPlot.AlignedData,
      this.node,
    );
    this.node.append(this.#readout);
  }

  readonly #readout = element("p", { class: "readout", "aria-hidden": "true" });

  #say({ cursor: { idx } }: uPlot): void {
    const { formatX = short, formatY = short } = this.#options;
    this.#readout.textContent = idx === null || idx === undefined ? "" : `${formatX(this.#data.x[idx]!)}: ${formatY(this.#data.y[idx]!)}`;
  }
}

/** 0.00012 → "1.2e−4", 45000 → "45 k". */
export function short(value: number): string {
  const size = Math.abs(value);
  const text = size === 0 ? "0" : size < 1e-3 ? value.toExponential(1).replace(".0e", "e") : size < 1000 ? String(Number(value.toPrecision(3))) : size < 1e6 ? `${Number((value / 1e3).toPrecision(3))} k` : size < 1e9 ? `${Number((value / 1e6).toPrecision(3))} M` : value.toExponential(1).replace("e+", "e");
  return text.replaceAll("-", "−");
}
