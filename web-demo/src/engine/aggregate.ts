/** Aggregates the rows in memory to the pixels of an image. Rows that have not been read are ignored. */

import { bandLevel } from "./bands.js";
import type { StoredFigures } from "./bands.js";
import type { MatrixReader, RowBlock } from "./matrix-reader.js";
import type { Area } from "./protocol.js";

/**
 * The fraction of the rows of a pixel line that must have been read for the line to show them. Otherwise it shows the
 * level of its bands, if that is available.
 */
const MIN_READ_SHARE = 0.5;

/**
 * Returns whether a line shows the level of its bands instead of the `read` rows that were read, because a few of its
 * `rows` rows are less representative.
 */
export const isForBand = (read: number, rows: number): boolean => read === 0 || read < MIN_READ_SHARE * rows;

/** The part of a matrix that is in memory. */
export type RowsInMemory = Pick<MatrixReader, "columns" | "cached"> & Partial<Pick<MatrixReader, "nextCached">>;

/** One level for each pixel, and the root mean square of each row and column of the image. */
export interface Aggregate {
  /**
   * The mean or the root mean square of the cells of each pixel. In all arrays, NaN marks pixels whose cells were not
   * read, and infinity marks pixels with cells that are not finite.
   */
  readonly levels: Float64Array<ArrayBuffer>;
  readonly rowRms: Float32Array<ArrayBuffer>;
  readonly columnRms: Float32Array<ArrayBuffer>;
  /**
   * For each row and column of the image, 1 if a cell in view is not finite. The root mean squares leave these cells
   * out, unless there are no others.
   */
  readonly rowMarks: Uint8Array<ArrayBuffer>;
  readonly columnMarks: Uint8Array<ArrayBuffer>;
  /** For each line of pixels, 1 if it shows the level of its bands because too few of its rows were read. */
  readonly isBanded: Uint8Array<ArrayBuffer>;
}

/** Sums over the cells of an area. */
export interface Cells {
  readonly count: number;
  readonly sum: number;
  readonly squares: number;
  readonly min: number;
  readonly max: number;
}

/**
 * Aggregates `area` to `width` × `height` pixels. The figures of rows and columns cover only `view`, which lies within
 * the area. `stored` provides levels for rows that were not read.
 */
export function aggregate(reader: RowsInMemory, area: Area, view: Area, width: number, height: number, isRms: boolean, stored?: StoredFigures): Aggregate {
  const levels = new Float64Array(width * height).fill(Number.NaN);
  const [rows, columns] = [area.rowEnd - area.rowBegin, area.columnEnd - area.columnBegin];
  const columnAt = Int32Array.from({ length: width + 1 }, (_, x) => area.columnBegin + Math.floor((x * columns) / width));
  const rowAt = (y: number) => area.rowBegin + Math.floor((y * rows) / height);
  const inView = columnAt.slice(0, width).map((column, x) => Number(columnAt[x + 1]! > view.columnBegin && column < view.columnEnd));
  const rowRms = new Float32Array(height).fill(Number.NaN);
  const isBanded = new Uint8Array(height);
  const [rowMarks, columnMarks] = [new Uint8Array(height), new Uint8Array(width)];
  const showsAllColumns = view.columnEnd - view.columnBegin >= reader.columns;
  const [allSquares, allCounts] = [new Float64Array(width), new Float64Array(width)];
  const [sums, squares, counts] = [new Float64Array(width), new Float64Array(width), new Float64Array(width)];
  for (let y = 0; y < height; y++) {
    const [begin, end] = [rowAt(y), rowAt(y + 1)];
    const read = addRows(begin, end);
    if (read === 0 || (stored && isForBand(read, end - begin))) {
      const band = stored && bandLevel(stored, begin, Math.max(begin + 1, end), area.rowEnd);
      if (!band && read === 0) continue;
      if (band) {
        isBanded[y] = 1;
        levels.fill(band.hasNonFinite ? Number.POSITIVE_INFINITY : isRms ? band.rms : band.mean, y * width, (y + 1) * width);
        // The figures of bands cover all columns.
        if (showsAllColumns) [rowRms[y], rowMarks[y]] = [Number.isNaN(band.rms) ? Number.POSITIVE_INFINITY : band.rms, Number(band.hasNonFinite)];
        continue;
      }
    }
    const isInView = end > view.rowBegin && begin < view.rowEnd;
    let [rowSquares, rowCount] = [0, 0];
    for (let x = 0; x < width; x++) {
      const [sum, square, count] = [sums[x]!, squares[x]!, counts[x]!];
      if (count === 0) continue;
      // The squares of finite 64-bit floats may overflow or underflow.
      const isInRange = Number.isFinite(square) && Number.isFinite(sum) && (square > 0 || sum === 0);
      levels[y * width + x] = isInRange ? (isRms ? Math.sqrt(square / count) : sum / count) : scaledLevel(begin, end, columnAt[x]!, columnAt[x + 1]!);
      if (inView[x] === 0) continue;
      if (levels[y * width + x] === Number.POSITIVE_INFINITY) {
        rowMarks[y] = 1;
        if (isInView) columnMarks[x] = 1;
        continue;
      }
      rowSquares += square;
      rowCount += count;
      if (!isInView) continue;
      allSquares[x]! += square;
      allCounts[x]! += count;
    }
    rowRms[y] = rms(rowSquares, rowCount, rowMarks[y]!);
  }
  return { levels, rowRms, columnRms: Float32Array.from(allSquares, (square, x) => rms(square, allCounts[x]!, columnMarks[x]!)), rowMarks, columnMarks, isBanded };

  /**
   * Returns the level of a pixel, computed from values divided by the largest one to avoid overflow; infinity if one is
   * not finite.
   */
  function scaledLevel(begin: number, end: number, columnBegin: number, columnEnd: number): number {
    let unit = 0;
    forEachCell(begin, end, columnBegin, columnEnd, (value) => (unit = value - value === 0 ? Math.max(unit, Math.abs(value)) : Number.POSITIVE_INFINITY));
    if (!Number.isFinite(unit) || unit === 0) return unit;
    let [count, sum, square] = [0, 0, 0];
    forEachCell(begin, end, columnBegin, columnEnd, (value) => {
      count += 1;
      sum += value / unit;
      square += (value / unit) ** 2;
    });
    return unit * (isRms ? Math.sqrt(square / count) : sum / count);
  }

  function forEachCell(begin: number, end: number, columnBegin: number, columnEnd: number, use: (value: number) => void): void {
    forEachRow(reader, begin, end, ({ numbers }, start) => {
      for (let column = columnBegin; column < columnEnd; column++) use(numbers[start + column]!);
    });
  }

  /** Adds the rows of one pixel line that are in memory, and returns their number. */
  function addRows(begin: number, end: number): number {
    sums.fill(0);
    squares.fill(0);
    counts.fill(0);
    let read = 0;
    forEachRow(reader, begin, end, ({ numbers }, start) => {
      read += 1;
      for (let x = 0; x < width; x++) {
        let [sum, square] = [0, 0];
        const stop = start + columnAt[x + 1]!;
        for (let at = start + columnAt[x]!; at < stop; at++) {
          const value = numbers[at]!;
          sum += value;
          square += value * value;
        }
        sums[x]! += sum;
        squares[x]! += square;
        counts[x]! += columnAt[x + 1]! - columnAt[x]!;
      }
    });
    return read;
  }
}

/**
 * Returns the root mean square of `count` cells; infinity if all cells are marked, NaN if there are none or the sum of
 * their squares overflows.
 */
const rms = (squares: number, count: number, mark: number): number => (count === 0 ? (mark === 1 ? Number.POSITIVE_INFINITY : Number.NaN) : Number.isFinite(squares) ? Math.sqrt(squares / count) : Number.NaN);

/**
 * Calls `use` for each row that is in memory, with the position of its first value. The rows between them are skipped, so
 * that the time does not depend on the number of rows of the tensor.
 */
function forEachRow(reader: RowsInMemory, begin: number, end: number, use: (block: RowBlock, start: number) => void): void {
  const next = (row: number): number => reader.nextCached?.(row, end) ?? row;
  for (let row = next(begin); row < end; row = next(row)) {
    const block = reader.cached(row)!;
    for (const stop = Math.min(end, block.rowEnd); row < stop; row++) use(block, (row - block.rowBegin) * reader.columns);
  }
}

/** Returns whether every row of an area is in memory. */
export function isRead(reader: RowsInMemory, { rowBegin, rowEnd }: Area): boolean {
  for (let row = rowBegin; row < rowEnd; ) {
    const block = reader.cached(row);
    if (!block) return false;
    row = block.rowEnd;
  }
  return true;
}

/** Sums the cells of an area that are in memory. */
export function cellsOf(reader: RowsInMemory, area: Area): Cells {
  let [count, sum, squares, min, max] = [0, 0, 0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  forEachRow(reader, area.rowBegin, area.rowEnd, ({ numbers }, start) => {
    for (let column = area.columnBegin; column < area.columnEnd; column++) {
      const value = numbers[start + column]!;
      count += 1;
      sum += value;
      squares += value * value;
      min = Math.min(min, value);
      max = Math.max(max, value);
    }
  });
  return { count, sum, squares, min, max };
}

/** Returns an area rounded outwards to whole cells and clamped to the matrix, at least one cell. */
export function clampArea({ rowBegin, rowEnd, columnBegin, columnEnd }: Area, { rows, columns }: { rows: number; columns: number }): Area {
  const [top, left] = [clamp(Math.floor(rowBegin), 0, rows - 1), clamp(Math.floor(columnBegin), 0, columns - 1)];
  return { rowBegin: top, rowEnd: clamp(Math.ceil(rowEnd), top + 1, rows), columnBegin: left, columnEnd: clamp(Math.ceil(columnEnd), left + 1, columns) };
}

const clamp = (value: number, least: number, most: number) => Math.max(least, Math.min(most, value));
