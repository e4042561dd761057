/** The treemap of a model. The area of a tensor represents its size. */

import type { TensorInfo } from "zstn";
import type { Engine } from "../../engine/client.js";
import type { TreemapCells } from "../../engine/protocol.js";
import type { ListedTensor } from "../../engine/tensor-table.js";
import { Turns } from "../../engine/turns.js";
import { darkScheme, press } from "../../page/appearance.js";
import { colour, element, fitCanvas } from "../../page/element.js";
import { isAbort } from "../../page/error-text.js";
import { formatBytes, formatShape } from "../../page/format.js";
import { showError } from "../../page/notice.js";
import type { OpenedModel } from "../../page/opened-model.js";
import { dtypeFamily, typeOf } from "../../tree/dtype-family.js";
import { dtypeChip } from "../../tree/row.js";
import { originalBytesOf } from "../../tree/node.js";
import { legend } from "./legend.js";
import { markPatterns } from "./mark-patterns.js";
import { MARK_TEXTS } from "./metric.js";
import type { Mark, Metric } from "./metric.js";
import { LABEL_HEIGHT } from "./layout.js";
import type { Rectangle } from "./ordered-layout.js";
import { colourAt, scaleOf } from "./scale.js";
import type { Scaled } from "./scale.js";

export type Measure = "stored" | "original";

export interface TreemapOptions {
  readonly engine: Engine;
  readonly model: OpenedModel;
  readonly onPick: (tensor: TensorInfo) => void;
  readonly signal: AbortSignal;
}

/** The fill of a cell, and its pattern if it has one, by the index of its tensor. */
interface Paint {
  readonly fillOf: (index: number) => string;
  readonly markOf: (index: number) => Mark | undefined;
}

export class Treemap {
  readonly node: HTMLElement;
  readonly #options: TreemapOptions;
  readonly #canvas = element("canvas", { class: "treemap", role: "img", "aria-label": "Treemap of the model: the area of a tensor is its size. The list has the same tensors." });
  readonly #caption = element("p", { class: "caption" });
  readonly #legend = element("div", {});
  #measure: Measure = "stored";
  /** The metric that colours tensors; `undefined` to colour them by dtype. */
  #metric: Metric | undefined;
  #cells: TreemapCells | undefined;
  /** The position of the pointer on the canvas, and the index of the tensor there. */
  #pointer: readonly [x: number, y: number] | undefined;
  #under: number | undefined;
  /** The rendered picture without the outline of the cell under the pointer. */
  readonly #picture = element("canvas");
  /** Stops a drawing that is no longer needed. */
  #drawing = new AbortController();

  constructor(options: TreemapOptions) {
    this.#options = options;
    const { model, onPick, signal } = options;
    this.node = element("div", {}, this.#canvas, this.#caption, this.#legend);
    this.#canvas.addEventListener("pointermove", ({ offsetX, offsetY }) => {
      this.#pointer = [offsetX, offsetY];
      this.#point();
    });
    this.#canvas.addEventListener("pointerleave", () => {
      this.#pointer = undefined;
      this.#point();
    });
    this.#canvas.addEventListener("click", ({ offsetX, offsetY }) => {
      const cell = this.#at(offsetX, offsetY);
      if (cell !== undefined) onPick(model.tensors.at(this.#cells!.tensors[cell]!));
    });
    new ResizeObserver(() => this.draw()).observe(this.#canvas);
    darkScheme.addEventListener("change", () => this.draw(), { signal });
    signal.addEventListener("abort", () => this.#drawing.abort());
  }

  /** Sets the meaning of the area of a tensor and of its colour. */
  show(measure: Measure, metric: Metric | undefined): void {
    this.#measure = measure;
    this.#metric = metric;
    if (!metric) this.#legend.replaceChildren(element("div", { class: "picture-legend" }, ...this.#options.model.figures.types.map(({ type }) => type).sort().map(dtypeChip)));
    this.#point(true);
    this.draw();
  }

  draw(): void {
    this.#drawing.abort();
    this.#drawing = new AbortController();
    this.#draw(this.#drawing.signal).catch((error: unknown) => {
      if (!isAbort(error)) showError(error);
    });
  }

  /** Draws the cells that the worker arranges. A drawing that takes long lets the page handle events. */
  async #draw(signal: AbortSignal): Promise<void> {
    const canvas = fitCanvas(this.#canvas);
    if (!canvas) return;
    const { engine, model } = this.#options;
    const { width, height } = canvas;
    const cells = await engine.call("treemap", { slot: "first", generation: model.generation, width, height, measure: this.#measure }, { signal });
    const turns = new Turns();
    const paint = this.#metric ? await this.#byMetric(this.#metric, turns, signal) : this.#byDtype();
    const ctx = this.#picture.getContext("2d", { willReadFrequently: true });
    if (!ctx) return;
    this.#picture.width = this.#canvas.width;
    this.#picture.height = this.#canvas.height;
    ctx.scale(this.#canvas.width / width, this.#canvas.height / height);
    await this.#paint(ctx, cells, paint, turns, signal);
    this.#label(ctx, cells, paint);
    this.#cells = cells;
    this.#under = undefined;
    this.#point(true);
  }

  async #paint(ctx: CanvasRenderingContext2D, { tensors, rectangles }: TreemapCells, { fillOf, markOf }: Paint, turns: Turns, signal: AbortSignal): Promise<void> {
    const { model } = this.#options;
    const { columns } = model.tensors;
    const isMetric = this.#metric !== undefined;
    const patterns = markPatterns(ctx);
    ctx.strokeStyle = colour("line");
    ctx.lineWidth = 1;
    for (const [i, index] of tensors.entries()) {
      const [x, y, across, down] = rectangles.subarray(4 * i, 4 * i + 4) as unknown as [number, number, number, number];
      const dimensions = columns.dimensionEnds[index]! - (columns.dimensionEnds[index - 1] ?? 0);
      ctx.fillStyle = fillOf(index);
      ctx.globalAlpha = isMetric ? 1 : dimensions < 2 ? 0.55 : 0.82;
      const gap = across > 3 && down > 3 ? 1 : 0.25;
      ctx.fillRect(x, y, Math.max(0.5, across - gap), Math.max(0.5, down - gap));
      // The lowest colour of a metric may equal the background, so cells get an outline.
      if (isMetric && across > 5 && down > 5) ctx.strokeRect(x + 0.5, y + 0.5, across - gap - 1, down - gap - 1);
      const mark = markOf(index);
      if (mark !== undefined) {
        ctx.fillStyle = patterns[mark];
        ctx.globalAlpha = 1;
        ctx.fillRect(x, y, Math.max(0.5, across - gap), Math.max(0.5, down - gap));
      }
      if (!turns.isOver()) continue;
      // Browsers would otherwise paint all cells at the end, in one task.
      ctx.getImageData(0, 0, 1, 1);
      await turns.next(signal);
    }
    ctx.globalAlpha = 1;
  }

  /** Draws the outline of the cell under the pointer on top of the rendered picture. */
  #mark(): void {
    const canvas = fitCanvas(this.#canvas);
    if (!canvas) return;
    // After a change of size, the picture is drawn again.
    if (this.#picture.width !== this.#canvas.width || this.#picture.height !== this.#canvas.height) return;
    const { ctx, width, height } = canvas;
    ctx.clearRect(0, 0, width, height);
    ctx.drawImage(this.#picture, 0, 0, width, height);
    const under = this.#under === undefined ? undefined : this.#rectangle(this.#under);
    if (under) this.#outline(ctx, under);
  }

  /** Returns the colours of a metric, and shows its legend. */
  async #byMetric(metric: Metric, turns: Turns, signal: AbortSignal): Promise<Paint> {
    const { tensors } = this.#options.model;
    const values: Scaled[] = [];
    const valueOf = new Float64Array(tensors.size).fill(Number.NaN);
    const marks = new Map<number, Mark>();
    for (let i = 0; i < tensors.size; i++) {
      const tensor = tensors.at(i);
      const value = metric.value([tensor]);
      if (value !== undefined) {
        valueOf[i] = value;
        values.push({ value, isOutlier: metric.isOfMatrices === true && tensor.shape.length < 2 });
      }
      const mark = metric.mark?.([tensor]);
      if (mark !== undefined) marks.set(i, mark);
      if (turns.isOver()) await turns.next(signal);
    }
    const scale = scaleOf(metric.scale, values);
    const kinds = [...new Set(marks.values())];
    this.#legend.replaceChildren(legend(metric, scale, kinds.map((kind) => [kind, MARK_TEXTS[kind]] as const)));
    const colours = [colour(`${metric.palette}-low`), colour(`${metric.palette}-middle`), colour(`${metric.palette}-high`)] as const;
    const unknown = colour("line");
    return { fillOf: (index) => (Number.isNaN(valueOf[index]!) ? unknown : colourAt(scale.at(valueOf[index]!), colours)), markOf: (index) => marks.get(index) };
  }

  #byDtype(): Paint {
    const { tensors } = this.#options.model;
    const colours = new Map<string, string>();
    const fillOf = (index: number): string => {
      const type = tensors.typeAt(index);
      let fill = colours.get(type);
      if (fill === undefined) colours.set(type, (fill = colour(dtypeFamily(type))));
      return fill;
    };
    return { fillOf, markOf: () => undefined };
  }

  #label(ctx: CanvasRenderingContext2D, { frames, tensors, rectangles }: TreemapCells, { fillOf }: Paint): void {
    ctx.font = `500 11.5px ${getComputedStyle(this.#canvas).fontFamily}`;
    ctx.textBaseline = "middle";
    ctx.fillStyle = colour("quiet");
    ctx.strokeStyle = colour("line");
    ctx.lineWidth = 1;
    for (const { x, y, width, height, label } of frames) {
      ctx.strokeRect(x + 0.5, y + 0.5, width - 2, height - 2);
      ctx.fillText(fitting(ctx, label, width - 12), x + 5, y + LABEL_HEIGHT / 2 + 0.5);
    }
    const inkOn = inks(colour("surface"), this.#metric ? 1 : 0.82);
    for (let i = 0; i < tensors.length; i++) {
      const [x, y, width, height] = rectangles.subarray(4 * i, 4 * i + 4) as unknown as [number, number, number, number];
      if (width < 60 || height < 20) continue;
      const index = tensors[i]!;
      const name = this.#options.model.tensors.nameAt(index);
      ctx.fillStyle = inkOn(fillOf(index));
      const label = name.slice(name.lastIndexOf(".", name.lastIndexOf(".") - 1) + 1);
      ctx.fillText(fitting(ctx, label, width - 12), x + 6, y + Math.min(height / 2, 12));
    }
  }

  #outline(ctx: CanvasRenderingContext2D, { x, y, width, height }: Rectangle): void {
    ctx.strokeStyle = colour("ink");
    ctx.lineWidth = 2;
    ctx.strokeRect(x + 0.5, y + 0.5, Math.max(1, width - 2), Math.max(1, height - 2));
  }

  /** Returns a text about the colour of a tensor, to be appended to its sizes. */
  #about(tensor: TensorInfo): string {
    if (!this.#metric || (this.#metric.key === "size" && !this.#metric.mark?.([tensor]))) return "";
    const value = this.#metric.value([tensor]);
    return `: ${this.#metric.describe?.([tensor]) ?? (value === undefined ? "" : `${this.#metric.label} ${this.#metric.format(value)}`)}`;
  }

  /** Returns the cell at a position. */
  #at(x: number, y: number): number | undefined {
    const { rectangles = new Float32Array() } = this.#cells ?? {};
    for (let at = 0; at < rectangles.length; at += 4) {
      const [left, top] = [rectangles[at]!, rectangles[at + 1]!];
      if (left <= x && x < left + rectangles[at + 2]! && top <= y && y < top + rectangles[at + 3]!) return at / 4;
    }
    return undefined;
  }

  #rectangle(cell: number): Rectangle {
    const [x, y, width, height] = this.#cells!.rectangles.subarray(4 * cell, 4 * cell + 4) as unknown as [number, number, number, number];
    return { x, y, width, height };
  }

  /** Shows the tensor under the pointer. */
  #point(always = false): void {
    const cell = this.#pointer && this.#at(...this.#pointer);
    if (cell === this.#under && !always) return;
    this.#under = cell;
    this.#canvas.classList.toggle("pickable", cell !== undefined);
    const tensor: ListedTensor | undefined = cell === undefined ? undefined : this.#options.model.tensors.at(this.#cells!.tensors[cell]!);
    if (tensor) {
      const { name, shape, storedLength } = tensor;
      this.#caption.replaceChildren(element("b", {}, name), ` ${typeOf(tensor)} ${formatShape(shape)}, ${formatBytes(originalBytesOf(tensor))}, stored in ${formatBytes(storedLength)}${this.#about(tensor)}`);
    } else {
      this.#caption.replaceChildren(`Area = ${this.#measure} size. ${press} a tensor to inspect it.`);
    }
    this.#mark();
  }
}

/** Returns a function that returns a text colour with good contrast to a colour that is drawn on `ground` with an opacity. */
function inks(ground: string, opacity: number): (fill: string) => string {
  const known = new Map<string, string>();
  const ctx = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  return (fill) => {
    if (!ctx) return "#000";
    let ink = known.get(fill);
    if (ink === undefined) {
      for (const [style, alpha] of [[ground, 1], [fill, opacity]] as const) {
        ctx.globalAlpha = alpha;
        ctx.fillStyle = style;
        ctx.fillRect(0, 0, 1, 1);
      }
      const [red, green, blue] = Array.from(ctx.getImageData(0, 0, 1, 1).data, (part) => (part / 255) ** 2.2);
      // Black and white have the same contrast with a luminance of 0.18.
      known.set(fill, (ink = 0.2126 * red! + 0.7152 * green! + 0.0722 * blue! > 0.18 ? "#101113" : "#ffffff"));
    }
    return ink;
  };
}

function fitting(ctx: CanvasRenderingContext2D, text: string, width: number): string {
  if (ctx.measureText(text).width <= width) return text;
  let end = text.length - 1;
  while (end > 0 && ctx.measureText(`${text.slice(0, end)}…`).width > width) end -= 1;
  return end === 0 ? "" : `${text.slice(0, end)}…`;
}
