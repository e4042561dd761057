/** The pinned cell of a heatmap: the lens that shows the values around it, and the keys that move it. */

import type { Engine } from "../engine/client.js";
import type { Reference } from "../engine/protocol.js";
import { announce, showError } from "../page/notice.js";
import type { Activities } from "../network/activity.js";
import { Lens } from "./lens.js";
import type { Viewport } from "./viewport.js";

export type Cell = readonly [row: number, column: number];

export interface PinOptions {
  readonly engine: Engine;
  readonly activities: Activities;
  readonly of: Reference;
  readonly minus?: Reference | undefined;
  readonly viewport: Viewport;
  readonly map: HTMLCanvasElement;
  readonly signal: AbortSignal;
  /** Called when a cell has been pinned or the pin has been removed. */
  readonly onPin: (cell: Cell | undefined) => void;
}

/** The change of row and column for each arrow key. */
const STEPS: Readonly<Record<string, Cell>> = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

export class Pin {
  readonly #options: PinOptions;
  readonly #lens: Lens;
  #cell: Cell | undefined;

  constructor(options: PinOptions) {
    this.#options = options;
    this.#lens = new Lens(() => this.set(undefined));
  }

  /** The elements of the lens, which are placed over the heatmap. */
  get nodes(): readonly HTMLElement[] {
    return this.#lens.nodes;
  }

  /** Pins a cell; `undefined` removes the pin. */
  set(cell: Cell | undefined): void {
    this.#cell = cell;
    this.#lens.hide();
    this.#options.onPin(cell);
    if (cell) void this.#fill(cell);
  }

  /** Moves the lens to the position of its cell in the view. */
  place(): void {
    if (!this.#cell) return;
    const { viewport: { area }, map: { clientWidth: width, clientHeight: height } } = this.#options;
    const [x, y] = [width / (area.columnEnd - area.columnBegin), height / (area.rowEnd - area.rowBegin)];
    this.#lens.place((this.#cell[1] - area.columnBegin) * x, (this.#cell[0] - area.rowBegin) * y, x, y, width, height);
  }

  /**
   * Handles a key: Escape removes the pin; Shift with an arrow key moves it, starting from `middle` if no cell is
   * pinned. Returns whether the key was used.
   */
  onKey(event: KeyboardEvent, middle: Cell | undefined): boolean {
    if (event.key === "Escape" && this.#cell) {
      this.set(undefined);
      return true;
    }
    const step = event.shiftKey ? STEPS[event.key] : undefined;
    if (!step) return false;
    const { rows, columns } = this.#options.viewport;
    const from = this.#cell ?? middle ?? [0, 0];
    this.set([Math.max(0, Math.min(rows - 1, from[0] + step[0])), Math.max(0, Math.min(columns - 1, from[1] + step[1]))]);
    return true;
  }

  async #fill(cell: Cell): Promise<void> {
    const { engine, activities, of, minus, viewport, map, signal } = this.#options;
    const [row, column] = cell;
    const area = Lens.areaAround(row, column, viewport.rows, viewport.columns, map.clientWidth);
    try {
      const values = await activities.run("Values", (options) => engine.call("values", { of, minus, area }, options), signal);
      if (this.#cell !== cell) return;
      this.#lens.fill(row, column, values);
      this.place();
      announce(`Row ${row}, column ${column}: ${values.values[(row - area.rowBegin) * (area.columnEnd - area.columnBegin) + column - area.columnBegin]}`);
    } catch (error) {
      if (!signal.aborted) showError(error);
    }
  }
}
