/** The treemap of a model. The area of a tensor represents its size. */

import type { TensorInfo } from "zstn";
import { darkScheme, press } from "../../page/appearance.js";
import { colour, element, fitCanvas } from "../../page/element.js";
import { formatBytes, formatShape } from "../../page/format.js";
import { dtypeFamily, typeOf } from "../../tree/dtype-family.js";
import { dtypeChip } from "../../tree/row.js";
import { originalBytesOf, ownBytes } from "../../tree/node.js";
import type { Branch, Node } from "../../tree/node.js";
import { legend } from "./legend.js";
import { markPatterns } from "./mark-patterns.js";
import { MARK_TEXTS } from "./metric.js";
import type { Metric } from "./metric.js";
import { LABEL_HEIGHT, Structures, TreemapLayout } from "./layout.js";
import type { Frame, TensorCell } from "./layout.js";
import type { Rectangle } from "./ordered-layout.js";
import { colourAt, scaleOf } from "./scale.js";
import type { Scale } from "./scale.js";

export type Measure = "stored" | "original";

export class Treemap {
  readonly node: HTMLElement;
  readonly #root: Branch;
  #structures: Structures | undefined;
  readonly #canvas = element("canvas", { class: "treemap", role: "img", "aria-label": "Treemap of the model: the area of a tensor is its size. The list has the same tensors." });
  readonly #caption = element("p", { class: "caption" });
  readonly #legend = element("div", {});
  readonly #tensors: readonly TensorInfo[];
  #measure: Measure = "stored";
  /** The metric that colours tensors; `undefined` to colour them by dtype. */
  #metric: Metric | undefined;
  #cells: readonly TensorCell[] = [];
  #frames: readonly Frame[] = [];
  #under: TensorCell | undefined;
  /** The rendered picture without the outline of the cell under the pointer. */
  readonly #picture = element("canvas");

  constructor(root: Branch, tensors: readonly TensorInfo[], onPick: (tensor: TensorInfo) => void, signal: AbortSignal) {
    this.#root = root;
    this.#tensors = tensors;
    this.node = element("div", {}, this.#canvas, this.#caption, this.#legend);
    this.#canvas.addEventListener("pointermove", (event) => this.#point(this.#at(event)));
    this.#canvas.addEventListener("pointerleave", () => this.#point(undefined));
    this.#canvas.addEventListener("click", (event) => {
      const cell = this.#at(event);
      if (cell) onPick(cell.tensor);
    });
    new ResizeObserver(() => this.draw()).observe(this.#canvas);
    darkScheme.addEventListener("change", () => this.draw(), { signal });
  }

  /** Sets the meaning of the area of a tensor and of its colour. */
  show(measure: Measure, metric: Metric | undefined): void {
    this.#measure = measure;
    this.#metric = metric;
    const dtypes = [...new Set(this.#tensors.map(typeOf))].sort();
    this.#legend.replaceChildren(metric ? legend(metric, this.#scale(metric), this.#marks(metric)) : element("div", { class: "picture-legend" }, ...dtypes.map(dtypeChip)));
    this.#point(this.#under, true);
    this.draw();
  }

  draw(): void {
    const canvas = fitCanvas(this.#canvas);
    if (!canvas) return;
    this.#structures ??= new Structures(this.#root);
    const room = { x: 0, y: 0, width: canvas.width, height: canvas.height };
    ({ cells: this.#cells, frames: this.#frames } = new TreemapLayout(this.#root, room, this.#structures, (node) => this.#bytes(node)));
    this.#paint();
  }

  #paint(): void {
    const canvas = fitCanvas(this.#canvas);
    if (!canvas) return;
    const { ctx, width, height } = canvas;
    ctx.clearRect(0, 0, width, height);
    ctx.strokeStyle = colour("line");
    ctx.lineWidth = 1;
    const fill = this.#metric ? this.#byMetric(this.#metric) : byDtype();
    const patterns = markPatterns(ctx);
    for (const { x, y, width: across, height: down, tensor } of this.#cells) {
      ctx.fillStyle = fill(tensor);
      ctx.globalAlpha = this.#metric ? 1 : tensor.shape.length < 2 ? 0.55 : 0.82;
      const gap = across > 3 && down > 3 ? 1 : 0.25;
      ctx.fillRect(x, y, Math.max(0.5, across - gap), Math.max(0.5, down - gap));
      // The lowest colour of a metric may equal the background, so cells get an outline.
      if (this.#metric && across > 5 && down > 5) ctx.strokeRect(x + 0.5, y + 0.5, across - gap - 1, down - gap - 1);
      const mark = this.#metric?.mark?.([tensor]);
      if (mark === undefined) continue;
      ctx.fillStyle = patterns[mark];
      ctx.globalAlpha = 1;
      ctx.fillRect(x, y, Math.max(0.5, across - gap), Math.max(0.5, down - gap));
    }
    ctx.globalAlpha = 1;
    this.#label(ctx, fill);
    this.#picture.width = this.#canvas.width;
    this.#picture.height = this.#canvas.height;
    this.#picture.getContext("2d")?.drawImage(this.#canvas, 0, 0);
    if (this.#under) this.#outline(ctx, this.#under);
  }

  /** Draws the outline of the cell under the pointer on top of the rendered picture. */
  #mark(): void {
    const canvas = fitCanvas(this.#canvas);
    if (!canvas) return;
    // Resizing the canvas has cleared it, so everything is painted again.
    if (this.#picture.width !== this.#canvas.width || this.#picture.height !== this.#canvas.height) return this.#paint();
    const { ctx, width, height } = canvas;
    ctx.clearRect(0, 0, width, height);
    ctx.drawImage(this.#picture, 0, 0, width, height);
    if (this.#under) this.#outline(ctx, this.#under);
  }

  /** Returns the marks that occur, with their meanings. */
  #marks({ mark }: Metric): (readonly [string, string])[] {
    const kinds = new Set(this.#tensors.map((tensor) => mark?.([tensor])));
    return [...kinds].flatMap((kind) => (kind === undefined ? [] : [[kind, MARK_TEXTS[kind]] as const]));
  }

  #scale(metric: Metric): Scale {
    const values = this.#tensors.flatMap((tensor) => {
      const value = metric.value([tensor]);
      return value === undefined ? [] : [{ value, isOutlier: metric.isOfMatrices === true && tensor.shape.length < 2 }];
    });
    return scaleOf(metric.scale, values);
  }

  #byMetric(metric: Metric): (tensor: TensorInfo) => string {
    const scale = this.#scale(metric);
    const colours = [colour(`${metric.palette}-low`), colour(`${metric.palette}-middle`), colour(`${metric.palette}-high`)] as const;
    const unknown = colour("line");
    return (tensor) => {
      const value = metric.value([tensor]);
      return value === undefined ? unknown : colourAt(scale.at(value), colours);
    };
  }

  #bytes(node: Node): number {
    if (node.kind === "tensor") return this.#measure === "stored" ? ownBytes(node.tensor) : originalBytesOf(node.tensor);
    return this.#measure === "stored" ? node.storedBytes : node.originalBytes;
  }

  #label(ctx: CanvasRenderingContext2D, fill: (tensor: TensorInfo) => string): void {
    ctx.font = `500 11.5px ${getComputedStyle(this.#canvas).fontFamily}`;
    ctx.textBaseline = "middle";
    ctx.fillStyle = colour("quiet");
    ctx.strokeStyle = colour("line");
    ctx.lineWidth = 1;
    for (const { x, y, width, height, label } of this.#frames) {
      ctx.strokeRect(x + 0.5, y + 0.5, width - 2, height - 2);
      ctx.fillText(fitting(ctx, label, width - 12), x + 5, y + LABEL_HEIGHT / 2 + 0.5);
    }
    const inkOn = inks(colour("surface"), this.#metric ? 1 : 0.82);
    for (const { x, y, width, height, tensor } of this.#cells) {
      if (width < 60 || height < 20) continue;
      ctx.fillStyle = inkOn(fill(tensor));
      const label = tensor.name.slice(tensor.name.lastIndexOf(".", tensor.name.lastIndexOf(".") - 1) + 1);
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

  #at({ offsetX, offsetY }: MouseEvent): TensorCell | undefined {
    return this.#cells.find(({ x, y, width, height }) => x <= offsetX && offsetX < x + width && y <= offsetY && offsetY < y + height);
  }

  #point(cell: TensorCell | undefined, always = false): void {
    if (cell?.tensor === this.#under?.tensor && !always) return;
    this.#under = cell;
    this.#canvas.classList.toggle("pickable", cell !== undefined);
    if (cell) {
      const { name, shape, storedLength } = cell.tensor;
      this.#caption.replaceChildren(element("b", {}, name), ` ${typeOf(cell.tensor)} ${formatShape(shape)}, ${formatBytes(originalBytesOf(cell.tensor))}, stored in ${formatBytes(storedLength)}${this.#about(cell.tensor)}`);
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

function byDtype(): (tensor: TensorInfo) => string {
  const colours = new Map<string, string>();
  return (tensor) => {
    const family = dtypeFamily(typeOf(tensor));
    if (!colours.has(family)) colours.set(family, colour(family));
    return colours.get(family)!;
  };
}

function fitting(ctx: CanvasRenderingContext2D, text: string, width: number): string {
  if (ctx.measureText(text).width <= width) return text;
  let end = text.length - 1;
  while (end > 0 && ctx.measureText(`${text.slice(0, end)}…`).width > width) end -= 1;
  return end === 0 ? "" : `${text.slice(0, end)}…`;
}
