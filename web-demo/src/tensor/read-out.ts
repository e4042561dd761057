/** The read-out of a plot: a crosshair, and a label with the value under the pointer. */

import { element } from "../page/element.js";

/** The distance between the label and the pointer, in CSS pixels. */
const DISTANCE = 14;

export class ReadOut {
  readonly nodes: readonly HTMLElement[];
  readonly #across = element("i", { class: "cross across" });
  readonly #down = element("i", { class: "cross down" });
  readonly #pill = element("p", { class: "pill", "aria-hidden": "true" });

  constructor() {
    this.nodes = [this.#across, this.#down, this.#pill];
    this.hide();
  }

  /** Shows `text` at a position in a box of this size, all in CSS pixels. */
  show(x: number, y: number, width: number, height: number, text: string): void {
    for (const node of this.nodes) node.hidden = false;
    this.#across.style.top = `${y}px`;
    this.#down.style.left = `${x}px`;
    this.#pill.textContent = text;
    const { offsetWidth, offsetHeight } = this.#pill;
    const left = x + DISTANCE;
    const top = y + DISTANCE + offsetHeight > height ? y - DISTANCE - offsetHeight : y + DISTANCE;
    this.#pill.style.left = `${Math.max(0, Math.min(width - offsetWidth, left))}px`;
    this.#pill.style.top = `${Math.max(0, top)}px`;
  }

  hide(): void {
    for (const node of this.nodes) node.hidden = true;
  }
}
