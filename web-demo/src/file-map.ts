/** The whole file as one strip: where each tensor lies, and which bytes have been fetched. */

import type { TensorInfo } from "zstn";
import { dtypeFamily } from "./dtype-color.js";
import { element } from "./element.js";
import { formatBytes } from "./format.js";
import type { Opened } from "./opened.js";

/** Below this a mark could not be seen; in CSS pixels. */
const LEAST_MARK_WIDTH = 2;
const FETCHED_HEIGHT = 5;
const GAP = 3;

/** Bytes of the file that belong to a tensor. */
interface Extent {
  tensor: TensorInfo;
  begin: number;
  end: number;
}

export class FileMap {
  readonly node: HTMLElement;
  readonly #canvas = element("canvas", { class: "map-strip", role: "img" });
  readonly #caption = element("p", { class: "map-caption" });
  readonly #opened: Opened;
  readonly #stored: Extent[];
  #selected: TensorInfo | undefined;

  constructor(opened: Opened, onPick: (tensor: TensorInfo) => void) {
    this.#opened = opened;
    this.#stored = [...opened.model.tensors.values()]
      .filter((tensor) => tensor.sharedWith === undefined)
      .flatMap(extents)
      .sort((a, b) => a.begin - b.begin);
    this.node = element("div", { class: "map" }, this.#canvas, this.#caption);
    this.#canvas.addEventListener("pointermove", (event) => this.#describe(this.#at(event)));
    this.#canvas.addEventListener("pointerleave", () => this.#describe(undefined));
    this.#canvas.addEventListener("click", (event) => {
      const tensor = this.#at(event);
      if (tensor) onPick(tensor);
    });
    new ResizeObserver(() => this.draw()).observe(this.#canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    this.#describe(undefined);
  }

  /** Marks the tensor that is being looked at. */
  select(tensor: TensorInfo | undefined): void {
    this.#selected = tensor;
    this.draw();
  }

  draw(): void {
    const width = this.#canvas.clientWidth;
    const height = this.#canvas.clientHeight;
    const pen = this.#canvas.getContext("2d");
    if (!pen || width === 0) return;
    const density = Math.min(devicePixelRatio, 3);
    this.#canvas.width = Math.round(width * density);
    this.#canvas.height = Math.round(height * density);
    pen.scale(density, density);
    const color = (name: string) => getComputedStyle(this.#canvas).getPropertyValue(`--${name}`).trim();
    const bandHeight = height - FETCHED_HEIGHT - GAP;
    pen.fillStyle = color("map-empty");
    pen.fillRect(0, 0, width, bandHeight);
    this.#drawTensors(pen, width, bandHeight, color);
    pen.fillStyle = color("map-empty");
    pen.fillRect(0, bandHeight + GAP, width, FETCHED_HEIGHT);
    pen.fillStyle = color("accent");
    for (const { begin, end } of this.#opened.fetched) {
      this.#mark(pen, begin, end, bandHeight + GAP, FETCHED_HEIGHT);
    }
    if (this.#selected) {
      for (const { begin, end } of extents(this.#selected)) this.#mark(pen, begin, end, 0, bandHeight);
    }
    this.#canvas.setAttribute("aria-label", `Map of the file: ${this.#stored.length} stored tensors in ${formatBytes(this.#opened.model.size)}`);
  }

  #drawTensors(pen: CanvasRenderingContext2D, width: number, height: number, color: (name: string) => string): void {
    const scale = width / this.#opened.model.size;
    const colors = new Map<string, string>();
    let drawnTo = -1;
    let wideOnes = 0;
    for (const extent of this.#stored) {
      const { tensor } = extent;
      const begin = extent.begin * scale;
      const end = extent.end * scale;
      // Thousands of tensors may share a pixel; one of them is enough.
      if (end < drawnTo + 0.5) continue;
      drawnTo = end;
      const family = dtypeFamily(tensor.dtype);
      if (!colors.has(family)) colors.set(family, color(family));
      pen.fillStyle = colors.get(family)!;
      if (end - begin > 1) wideOnes += 1;
      pen.globalAlpha = wideOnes % 2 === 0 ? 0.58 : 0.88; // neighbours stay apart
      pen.fillRect(begin, 0, Math.max(end - begin, 0.75), height);
    }
    pen.globalAlpha = 1;
  }

  #mark(pen: CanvasRenderingContext2D, begin: number, end: number, top: number, height: number): void {
    const scale = this.#canvas.clientWidth / this.#opened.model.size;
    const width = Math.max((end - begin) * scale, LEAST_MARK_WIDTH);
    pen.fillRect(Math.min(begin * scale, this.#canvas.clientWidth - width), top, width, height);
  }

  #at(event: MouseEvent): TensorInfo | undefined {
    const position = (event.offsetX / this.#canvas.clientWidth) * this.#opened.model.size;
    let [low, high] = [0, this.#stored.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#stored[middle]!.begin <= position) low = middle + 1;
      else high = middle;
    }
    const extent = this.#stored[low - 1];
    return extent && position < extent.end ? extent.tensor : undefined;
  }

  #describe(tensor: TensorInfo | undefined): void {
    this.#canvas.classList.toggle("pickable", tensor !== undefined);
    const fetched = element("span", { class: "map-key" }, element("i"), "fetched");
    if (tensor) {
      const size = `${tensor.dtype}, ${formatBytes(tensor.storedLength)} stored`;
      this.#caption.replaceChildren(element("span", { class: "map-name" }, tensor.name), element("span", {}, size), fetched);
    } else {
      this.#caption.replaceChildren(element("span", {}, "The file from its first byte to its last"), fetched);
    }
  }
}

function extents(tensor: TensorInfo): Extent[] {
  const stored = tensor.parts.filter(({ length }) => length > 0);
  return stored.map(({ offset, length }) => ({ tensor, begin: offset, end: offset + length }));
}
