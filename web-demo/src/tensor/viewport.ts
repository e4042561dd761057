/** The viewport: the part of a matrix in view. Rows and columns may have different scales. */

import type { Area } from "../engine/protocol.js";

/** The fewest rows and columns in view: the maximum zoom. */
const MIN_ROWS = 6;
const MIN_COLUMNS = 10;

export class Viewport {
  readonly rows: number;
  readonly columns: number;
  area: Area;
  readonly #listeners = new Set<() => void>();

  constructor(rows: number, columns: number) {
    this.rows = rows;
    this.columns = columns;
    this.area = this.all;
  }

  get all(): Area {
    return { rowBegin: 0, rowEnd: this.rows, columnBegin: 0, columnEnd: this.columns };
  }

  get isAll(): boolean {
    return this.area.rowEnd - this.area.rowBegin >= this.rows && this.area.columnEnd - this.area.columnBegin >= this.columns;
  }

  onChange(listener: () => void): void {
    this.#listeners.add(listener);
  }

  /** Pans by fractions of the view. */
  pan(across: number, down: number): void {
    const { rowBegin, rowEnd, columnBegin, columnEnd } = this.area;
    this.#set(rowBegin + down * (rowEnd - rowBegin), rowEnd - rowBegin, columnBegin + across * (columnEnd - columnBegin), columnEnd - columnBegin);
  }

  /** Scales cells by `factor`. The point at these fractions of the view stays fixed. */
  zoom(factor: number, across = 0.5, down = 0.5): void {
    const { rowBegin, rowEnd, columnBegin, columnEnd } = this.area;
    const rows = clamp((rowEnd - rowBegin) / factor, Math.min(MIN_ROWS, this.rows), this.rows);
    const columns = clamp((columnEnd - columnBegin) / factor, Math.min(MIN_COLUMNS, this.columns), this.columns);
    this.#set(rowBegin + down * (rowEnd - rowBegin - rows), rows, columnBegin + across * (columnEnd - columnBegin - columns), columns);
  }

  reset(): void {
    this.#set(0, this.rows, 0, this.columns);
  }

  #set(rowBegin: number, rows: number, columnBegin: number, columns: number): void {
    const top = clamp(rowBegin, 0, this.rows - rows);
    const left = clamp(columnBegin, 0, this.columns - columns);
    this.area = { rowBegin: top, rowEnd: top + rows, columnBegin: left, columnEnd: left + columns };
    for (const listener of this.#listeners) listener();
  }
}

const clamp = (value: number, least: number, most: number) => Math.max(least, Math.min(most, value));
