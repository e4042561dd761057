/** The model as one surface: every tensor as large as it is. */

import type { TensorInfo } from "zstn";
import { choice, colour, darkScheme, element, fitCanvas } from "../page/element.js";
import { formatBytes, formatShape } from "../page/format.js";
import { dtypeFamily } from "../tree/dtype-family.js";
import { ownBytes } from "../tree/node.js";
import type { Branch, Node } from "../tree/node.js";
import { squarified } from "./squares.js";
import type { Rectangle } from "./squares.js";

/** Below this a rectangle is not divided any more, in square pixels. */
const LEAST_AREA = 14;
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
  readonly #canvas = element("canvas", { class: "treemap", role: "img", "aria-label": "Map of the model: every tensor as large as it is. The list beside it has the same tensors." });
  readonly #caption = element("p", { class: "caption" });
  #measure: Measure = "stored";
  #cells: Cell[] = [];
  #frames: Frame[] = [];
  #under: Cell | undefined;

  constructor(root: Branch, onPick: (tensor: TensorInfo) => void) {
    this.#root = root;
    const by = choice("Size", [["stored", "stored"], ["original", "original"]], "stored", (measure) => {
      this.#measure = measure as Measure;
      this.draw();
    });
    this.node = element("section", { class: "card wide" }, element("div", { class: "card-head" }, element("h2", {}, "Where the size is"), by), this.#canvas, this.#caption);
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
    const { pen, width, height } = canvas;
    pen.clearRect(0, 0, width, height);
    const colours = new Map<string, string>();
    for (const { x, y, width: across, height: down, tensor } of this.#cells) {
      const family = dtypeFamily(tensor.dtype);
      if (!colours.has(family)) colours.set(family, colour(family));
      pen.fillStyle = colours.get(family)!;
      pen.globalAlpha = tensor.shape.length < 2 ? 0.55 : 0.82;
      const gap = across > 3 && down > 3 ? 1 : 0.25;
      pen.fillRect(x, y, Math.max(0.5, across - gap), Math.max(0.5, down - gap));
    }
    pen.globalAlpha = 1;
    this.#label(pen);
    if (this.#under) this.#outline(pen, this.#under);
  }

  #bytes(node: Node): number {
    if (node.kind === "tensor") return this.#measure === "stored" ? ownBytes(node.tensor) : node.tensor.byteLength;
    return this.#measure === "stored" ? node.storedBytes : node.originalBytes;
  }

  #place(nodes: readonly Node[], room: Rectangle, depth: number): void {
    const sorted = nodes.map((node) => ({ node, size: this.#bytes(node) })).filter(({ size }) => size > 0).sort((a, b) => b.size - a.size);
    const places = squarified(sorted.map(({ size }) => size), room);
    for (const [i, { node }] of sorted.entries()) {
      const place = places[i]!;
      if (node.kind === "tensor") {
        this.#cells.push({ ...place, tensor: node.tensor });
      } else if (place.width * place.height < LEAST_AREA) {
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

  #label(pen: CanvasRenderingContext2D): void {
    pen.font = `500 11.5px ${getComputedStyle(this.#canvas).fontFamily}`;
    pen.textBaseline = "middle";
    pen.fillStyle = colour("quiet");
    pen.strokeStyle = colour("line");
    pen.lineWidth = 1;
    for (const { x, y, width, height, label } of this.#frames) {
      pen.strokeRect(x + 0.5, y + 0.5, width - 2, height - 2);
      pen.fillText(fitting(pen, label, width - 12), x + 5, y + LABEL_HEIGHT / 2 + 0.5);
    }
    pen.fillStyle = colour("on-family");
    for (const { x, y, width, height, tensor } of this.#cells) {
      if (width < 60 || height < 20) continue;
      const label = tensor.name.slice(tensor.name.lastIndexOf(".", tensor.name.lastIndexOf(".") - 1) + 1);
      pen.fillText(fitting(pen, label, width - 12), x + 6, y + Math.min(height / 2, 12));
    }
  }

  #outline(pen: CanvasRenderingContext2D, { x, y, width, height }: Rectangle): void {
    pen.strokeStyle = colour("ink");
    pen.lineWidth = 2;
    pen.strokeRect(x + 0.5, y + 0.5, Math.max(1, width - 2), Math.max(1, height - 2));
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
      this.#caption.replaceChildren("Every tensor as large as it is; a click looks inside.");
    }
    this.#paint();
  }
}

/** The largest tensor of a module too small to be divided. */
function largest({ children }: Branch): TensorInfo | undefined {
  let best: TensorInfo | undefined;
  for (const child of children) {
    const tensor = child.kind === "tensor" ? child.tensor : largest(child);
    if (tensor && (!best || tensor.byteLength > best.byteLength)) best = tensor;
  }
  return best;
}

function fitting(pen: CanvasRenderingContext2D, text: string, width: number): string {
  if (pen.measureText(text).width <= width) return text;
  let end = text.length - 1;
  while (end > 0 && pen.measureText(`${text.slice(0, end)}…`).width > width) end -= 1;
  return end === 0 ? "" : `${text.slice(0, end)}…`;
}
