/** The treemap of a model: the area of a tensor is its size. */

import type { TensorInfo } from "zstn";
import { select, colour, darkScheme, element, fitCanvas } from "../page/element.js";
import { formatBytes, formatShape } from "../page/format.js";
import { dtypeFamily } from "../tree/dtype-family.js";
import { ownBytes } from "../tree/node.js";
import type { Branch, Node } from "../tree/node.js";
import { squarify } from "./squarify.js";
import type { Rectangle } from "./squarify.js";

/** The smallest rectangle that is divided further, in square pixels. */
const MIN_AREA = 14;
const LABEL_HEIGHT = 17;

interface Cell extends Rectangle {
  readonly tensor: TensorInfo;
}

interface Frame extends Rectangle {
  readonly label: string;
}

type Measure = "stored" | "original";

export class Treemap {
  readonly node: HTMLElement;
  readonly #root: Branch;
  readonly #canvas = element("canvas", { class: "treemap", role: "img", "aria-label": "Treemap of the model: the area of a tensor is its size. The list has the same tensors." });
  readonly #caption = element("p", { class: "caption" });
  #measure: Measure = "stored";
  #cells: Cell[] = [];
  #frames: Frame[] = [];
  #under: Cell | undefined;

  constructor(root: Branch, onPick: (tensor: TensorInfo) => void) {
    this.#root = root;
    const by = select("Size", [["stored", "stored"], ["original", "original"]], "stored", (measure) => {
      this.#measure = measure as Measure;
      this.draw();
    });
    this.node = element("section", { class: "card wide" }, element("div", { class: "card-head" }, element("h2", {}, "Size by tensor"), by), this.#canvas, this.#caption);
    this.#canvas.addEventListener("pointermove", (event) => this.#point(this.#at(event)));
    this.#canvas.addEventListener("pointerleave", () => this.#point(undefined));
    this.#canvas.addEventListener("click", (event) => {
      const cell = this.#at(event);
      if (cell) onPick(cell.tensor);
    });
    new ResizeObserver(() => this.draw()).observe(this.#canvas);
    darkScheme.addEventListener("change", () => this.draw());
    this.#point(undefined);
  }

  draw(): void {
    const canvas = fitCanvas(this.#canvas);
    if (!canvas) return;
    this.#cells = [];
    this.#frames = [];
    this.#place(this.#root.children, { x: 0, y: 0, width: canvas.width, height: canvas.height }, 0);
    this.#paint();
  }

  #paint(): void {
    const canvas = fitCanvas(this.#canvas);
    if (!canvas) return;
    const { ctx, width, height } = canvas;
    ctx.clearRect(0, 0, width, height);
    const colours = new Map<string, string>();
    for (const { x, y, width: across, height: down, tensor } of this.#cells) {
      const family = dtypeFamily(tensor.dtype);
      if (!colours.has(family)) colours.set(family, colour(family));
      ctx.fillStyle = colours.get(family)!;
      ctx.globalAlpha = tensor.shape.length < 2 ? 0.55 : 0.82;
      const gap = across > 3 && down > 3 ? 1 : 0.25;
      ctx.fillRect(x, y, Math.max(0.5, across - gap), Math.max(0.5, down - gap));
    }
    ctx.globalAlpha = 1;
    this.#label(ctx);
    if (this.#under) this.#outline(ctx, this.#under);
  }

  #bytes(node: Node): number {
    if (node.kind === "tensor") return this.#measure === "stored" ? ownBytes(node.tensor) : node.tensor.byteLength;
    return this.#measure === "stored" ? node.storedBytes : node.originalBytes;
  }

  #place(nodes: readonly Node[], room: Rectangle, depth: number): void {
    const sorted = nodes.map((node) => ({ node, size: this.#bytes(node) })).filter(({ size }) => size > 0).sort((a, b) => b.size - a.size);
    const places = squarify(sorted.map(({ size }) => size), room);
    for (const [i, { node }] of sorted.entries()) {
      const place = places[i]!;
      if (node.kind === "tensor") {
        this.#cells.push({ ...place, tensor: node.tensor });
      } else if (place.width * place.height < MIN_AREA) {
        const tensor = largest(node);
        if (tensor) this.#cells.push({ ...place, tensor });
      } else {
        const framed = depth < 3 && place.width > 54 && place.height > 44;
        if (framed) this.#frames.push({ ...place, label: node.label });
        const inside = framed ? { x: place.x + 2, y: place.y + LABEL_HEIGHT, width: place.width - 5, height: place.height - LABEL_HEIGHT - 3 } : place;
        this.#place(node.children, inside, depth + 1);
      }
    }
  }

  #label(ctx: CanvasRenderingContext2D): void {
    ctx.font = `500 11.5px ${getComputedStyle(this.#canvas).fontFamily}`;
    ctx.textBaseline = "middle";
    ctx.fillStyle = colour("quiet");
    ctx.strokeStyle = colour("line");
    ctx.lineWidth = 1;
    for (const { x, y, width, height, label } of this.#frames) {
      ctx.strokeRect(x + 0.5, y + 0.5, width - 2, height - 2);
      ctx.fillText(fitting(ctx, label, width - 12), x + 5, y + LABEL_HEIGHT / 2 + 0.5);
    }
    ctx.fillStyle = colour("on-family");
    for (const { x, y, width, height, tensor } of this.#cells) {
      if (width < 60 || height < 20) continue;
      const label = tensor.name.slice(tensor.name.lastIndexOf(".", tensor.name.lastIndexOf(".") - 1) + 1);
      ctx.fillText(fitting(ctx, label, width - 12), x + 6, y + Math.min(height / 2, 12));
    }
  }

  #outline(ctx: CanvasRenderingContext2D, { x, y, width, height }: Rectangle): void {
    ctx.strokeStyle = colour("ink");
    ctx.lineWidth = 2;
    ctx.strokeRect(x + 0.5, y + 0.5, Math.max(1, width - 2), Math.max(1, height - 2));
  }

  #at({ offsetX, offsetY }: MouseEvent): Cell | undefined {
    return this.#cells.find(({ x, y, width, height }) => x <= offsetX && offsetX < x + width && y <= offsetY && offsetY < y + height);
  }

  #point(cell: Cell | undefined): void {
    if (cell?.tensor === this.#under?.tensor && this.#caption.childNodes.length > 0) return;
    this.#under = cell;
    this.#canvas.classList.toggle("pickable", cell !== undefined);
    if (cell) {
      const { name, dtype, shape, byteLength, storedLength } = cell.tensor;
      this.#caption.replaceChildren(element("b", {}, name), ` ${dtype} ${formatShape(shape)}, ${formatBytes(byteLength)}, stored in ${formatBytes(storedLength)}`);
    } else {
      this.#caption.replaceChildren(`Area = ${this.#measure} size. Click a tensor to inspect it.`);
    }
    this.#paint();
  }
}

/** Returns the largest tensor of a module that is too small to be divided. */
function largest({ children }: Branch): TensorInfo | undefined {
  let best: TensorInfo | undefined;
  for (const child of children) {
    const tensor = child.kind === "tensor" ? child.tensor : largest(child);
    if (tensor && (!best || tensor.byteLength > best.byteLength)) best = tensor;
  }
  return best;
}

function fitting(ctx: CanvasRenderingContext2D, text: string, width: number): string {
  if (ctx.measureText(text).width <= width) return text;
  let end = text.length - 1;
  while (end > 0 && ctx.measureText(`${text.slice(0, end)}…`).width > width) end -= 1;
  return end === 0 ? "" : `${text.slice(0, end)}…`;
}
