/** The viewport: the visible area of a matrix. Rows and columns have different scales, unless cells are square. */

import type { Area } from "../engine/protocol.js";

/** The minimum number of visible rows and columns, which limits the zoom. */
const MIN_ROWS = 6;
const MIN_COLUMNS = 10;
/** From this number of visible rows or columns on, a settled view begins and ends at whole ones. */
const COARSE = 200;

export class Viewport {
  readonly rows: number;
  readonly columns: number;
  /** The visible area. With square cells, it may extend beyond the matrix. */
  area: Area;
  #isSquare = false;
  /** The width of the canvas divided by its height. */
  #aspect = 2;
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

  /** The visible area, clamped to the matrix. */
  get inside(): Area {
    const { rowBegin, rowEnd, columnBegin, columnEnd } = this.area;
    return { rowBegin: Math.max(0, rowBegin), rowEnd: Math.min(this.rows, rowEnd), columnBegin: Math.max(0, columnBegin), columnEnd: Math.min(this.columns, columnEnd) };
  }

  get isSquare(): boolean {
    return this.#isSquare;
  }

  set isSquare(isSquare: boolean) {
    if (isSquare === this.#isSquare) return;
    this.#isSquare = isSquare;
    this.area = isSquare ? this.inside : this.#clamped(this.inside);
    this.#set(this.area);
  }

  /** The width of the canvas divided by its height. */
  set aspect(aspect: number) {
    if (!(aspect > 0) || Math.abs(aspect - this.#aspect) < 1e-3) return;
    const wasAll = this.isAll;
    this.#aspect = aspect;
    if (this.#isSquare) wasAll ? this.fit() : this.#set(this.inside);
  }

  onChange(listener: () => void): void {
    this.#listeners.add(listener);
  }

  /** Pans by fractions of the visible area. */
  pan(across: number, down: number): void {
    const { rowBegin, rowEnd, columnBegin, columnEnd } = this.area;
    const [right, below] = [across * (columnEnd - columnBegin), down * (rowEnd - rowBegin)];
    this.#set({ rowBegin: rowBegin + below, rowEnd: rowEnd + below, columnBegin: columnBegin + right, columnEnd: columnEnd + right });
  }

  /** Scales cells by `factor`. The point at these fractions of the view keeps its position. */
  zoom(factor: number, across = 0.5, down = 0.5): void {
    const { rowBegin, rowEnd, columnBegin, columnEnd } = this.area;
    const [rows, columns] = [rowEnd - rowBegin, columnEnd - columnBegin];
    const [mostRows, mostColumns] = this.#most();
    const [height, width] = [clamp(rows / factor, Math.min(MIN_ROWS, this.rows), mostRows), clamp(columns / factor, Math.min(MIN_COLUMNS, this.columns), mostColumns)];
    const [top, left] = [rowBegin + down * (rows - height), columnBegin + across * (columns - width)];
    this.#set({ rowBegin: top, rowEnd: top + height, columnBegin: left, columnEnd: left + width });
  }

  /** Shows the whole matrix. */
  fit(): void {
    const [rows, columns] = this.#most();
    this.#set({ rowBegin: 0, rowEnd: rows, columnBegin: 0, columnEnd: columns });
  }

  /** Shows this area, clamped to the matrix. */
  show(area: Area): void {
    this.#set(area);
  }

  /** Rounds the view, so that a short text describes it exactly. Returns whether this has changed the view. */
  settle(): boolean {
    const round = (begin: number, end: number, size: number): [number, number] => {
      const unit = end - begin >= COARSE ? 1 : 10;
      const [from, to] = [Math.round(begin * unit) / unit, Math.round(end * unit) / unit];
      return this.#isSquare ? [from, to] : [Math.max(0, from), Math.min(size, to)];
    };
    const { rowBegin, rowEnd, columnBegin, columnEnd } = this.area;
    const [[top, bottom], [left, right]] = [round(rowBegin, rowEnd, this.rows), round(columnBegin, columnEnd, this.columns)];
    if (top === rowBegin && bottom === rowEnd && left === columnBegin && right === columnEnd) return false;
    this.area = { rowBegin: top, rowEnd: bottom, columnBegin: left, columnEnd: right };
    return true;
  }

  /** Returns the maximum number of visible rows and columns. With square cells, one of them extends beyond the matrix. */
  #most(): [number, number] {
    if (!this.#isSquare) return [this.rows, this.columns];
    return this.rows * this.#aspect >= this.columns ? [this.rows, this.rows * this.#aspect] : [this.columns / this.#aspect, this.columns];
  }

  #set(area: Area): void {
    this.area = this.#clamped(area);
    for (const listener of this.#listeners) listener();
  }

  #clamped({ rowBegin, rowEnd, columnBegin, columnEnd }: Area): Area {
    const [mostRows, mostColumns] = this.#most();
    let [rows, columns] = [clamp(rowEnd - rowBegin, Math.min(MIN_ROWS, this.rows), mostRows), clamp(columnEnd - columnBegin, Math.min(MIN_COLUMNS, this.columns), mostColumns)];
    const [middleRow, middleColumn] = [(rowBegin + rowEnd) / 2, (columnBegin + columnEnd) / 2];
    if (this.#isSquare && Math.abs(columns / rows / this.#aspect - 1) > 0.01) {
      rows = Math.min(mostRows, Math.max(rows, columns / this.#aspect));
      columns = rows * this.#aspect;
    }
    const [top, left] = [placed(middleRow - rows / 2, rows, this.rows), placed(middleColumn - columns / 2, columns, this.columns)];
    return { rowBegin: top, rowEnd: top + rows, columnBegin: left, columnEnd: left + columns };
  }
}

/** Returns the beginning of a view of this length. A view that is longer than the matrix is centred. */
const placed = (begin: number, length: number, size: number) => (length >= size ? (size - length) / 2 : clamp(begin, 0, size - length));
const clamp = (value: number, least: number, most: number) => Math.max(least, Math.min(most, value));
