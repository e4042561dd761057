/** Figures of a tensor: of all its rows, or of a sample where it is large. */

import { Census } from "./census.js";
import type { Cells, Piece } from "./cells.js";
import type { Description, Series } from "./protocol.js";
import type { Context } from "./worker.js";

/** More points than a chart has pixels are joined. */
const MOST_POINTS = 4096;

export async function describe(cells: Cells, whole: boolean, context: Context): Promise<Description> {
  await cells.prepare(context);
  const census = new Census();
  const norms = new Norms(cells);
  let changed = 0;
  let squares = 0;
  const use = (piece: Piece) => {
    census.add(piece);
    norms.add(piece);
    if (!cells.compare) return;
    const compared = cells.compare(piece);
    changed += compared.changed;
    squares += compared.squares;
  };
  const strips = whole ? [[0, cells.rows] as const] : cells.sample;
  const all = strips.reduce((sum, [begin, end]) => sum + end - begin, 0);
  let done = 0;
  // A sample's strips are asked for together, so that they share round trips.
  const visits = strips.map(async ([begin, end]) => {
    const onStep: Context["onStep"] = strips.length === 1 ? context.onStep : () => {};
    await cells.visit(begin, end, { signal: context.signal, onStep }, use, whole || cells.isSmall ? undefined : "sample");
    done += end - begin;
    if (strips.length > 1) context.onStep({ loadedBytes: done, totalBytes: all });
  });
  await Promise.all(visits);
  const { count, zeros, nans, infinities, norm, mean, standardDeviation } = census;
  const nothing = census.finite === 0;
  return {
    rows: cells.rows,
    columns: cells.columns,
    rowsRead: norms.rowsRead,
    count, zeros, nans, infinities, norm, mean, standardDeviation,
    min: nothing ? Number.NaN : census.min,
    max: nothing ? Number.NaN : census.max,
    zeroRows: norms.zeroRows,
    histogram: census.histogram(),
    magnitudes: census.magnitudes(),
    ...(cells.bits && { exponents: census.exponents(cells.bits) }),
    rowNorms: norms.ofRows(),
    columnNorms: norms.ofColumns(),
    ...(cells.compare && { difference: { changed, relativeNorm: norm / Math.sqrt(squares) } }),
  };
}

/** Lengths of rows and columns. */
class Norms {
  rowsRead = 0;
  zeroRows = 0;
  readonly #columns: number;
  readonly #byColumn: Float64Array<ArrayBuffer>;
  readonly #byRow: [number, number][] = [];

  constructor({ columns }: Cells) {
    this.#columns = columns;
    this.#byColumn = new Float64Array(columns);
  }

  add({ rowBegin, rowEnd, numbers }: Piece): void {
    const columns = this.#columns;
    for (let row = rowBegin, at = 0; row < rowEnd; row++) {
      let sum = 0;
      const end = Math.min(columns, numbers.length - at);
      for (let column = 0; column < end; column++, at++) {
        const square = numbers[at]! * numbers[at]!;
        if (square - square !== 0) continue;
        sum += square;
        this.#byColumn[column]! += square;
      }
      this.rowsRead += 1;
      if (sum === 0) this.zeroRows += 1;
      this.#byRow.push([row, Math.sqrt(sum)]);
    }
  }

  ofRows(): Series {
    this.#byRow.sort((a, b) => a[0] - b[0]);
    return joined(this.#byRow.map(([row]) => row), this.#byRow.map(([, norm]) => norm));
  }

  /** Of the rows that were read, as if there were all: the scale is that of whole columns only then. */
  ofColumns(): Series {
    return joined(Array.from(this.#byColumn, (_, i) => i), Array.from(this.#byColumn, Math.sqrt));
  }
}

/** Neighbours become one point, their mean. */
function joined(positions: number[], values: number[]): Series {
  const step = Math.max(1, Math.ceil(values.length / MOST_POINTS));
  const length = Math.ceil(values.length / step);
  const mean = (numbers: number[], i: number) => {
    const part = numbers.slice(i * step, (i + 1) * step);
    return part.reduce((sum, number) => sum + number, 0) / part.length;
  };
  return {
    positions: Float64Array.from({ length }, (_, i) => mean(positions, i)),
    values: Float64Array.from({ length }, (_, i) => mean(values, i)),
  };
}
