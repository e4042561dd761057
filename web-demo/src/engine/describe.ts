/** Describing a tensor: statistics of all its rows, or of a sample. */

import { ValueStats } from "./value-stats.js";
import type { MatrixReader, RowBlock } from "./matrix-reader.js";
import type { Description, Series } from "./protocol.js";
import type { Context } from "./context.js";

/** The maximum number of points of a chart. More are averaged. */
const MAX_POINTS = 4096;

export async function describe(reader: MatrixReader, whole: boolean, context: Context): Promise<Description> {
  await reader.prepare(context);
  const stats = new ValueStats();
  const norms = new Norms(reader);
  let changed = 0;
  let squares = 0;
  const use = (block: RowBlock) => {
    stats.add(block);
    norms.add(block);
    if (!reader.compare) return;
    const compared = reader.compare(block);
    changed += compared.changed;
    squares += compared.squares;
  };
  const strips = whole ? [[0, reader.rows] as const] : reader.sample;
  const all = strips.reduce((sum, [begin, end]) => sum + end - begin, 0);
  let done = 0;
  // The strips of a sample are read together, so that they share round trips.
  const visits = strips.map(async ([begin, end]) => {
    const onStep: Context["onStep"] = strips.length === 1 ? context.onStep : () => {};
    await reader.readRows(begin, end, { signal: context.signal, onStep }, use, whole || reader.isSmall ? undefined : "sample");
    done += end - begin;
    if (strips.length > 1) context.onStep({ loadedBytes: done, totalBytes: all });
  });
  await Promise.all(visits);
  const { count, zeros, nans, infinities, norm, mean, standardDeviation } = stats;
  const nothing = stats.finite === 0;
  return {
    rows: reader.rows,
    columns: reader.columns,
    rowsRead: norms.rowsRead,
    count, zeros, nans, infinities, norm, mean, standardDeviation,
    min: nothing ? Number.NaN : stats.min,
    max: nothing ? Number.NaN : stats.max,
    zeroRows: norms.zeroRows,
    histogram: stats.histogram(),
    magnitudes: stats.magnitudes(),
    ...(reader.bits && { exponents: stats.exponents(reader.bits) }),
    rowNorms: norms.ofRows(),
    columnNorms: norms.ofColumns(),
    ...(reader.compare && { difference: { changed, relativeNorm: norm / Math.sqrt(squares) } }),
  };
}

/** Norms of rows and columns. */
class Norms {
  rowsRead = 0;
  zeroRows = 0;
  readonly #columns: number;
  readonly #byColumn: Float64Array<ArrayBuffer>;
  readonly #byRow: [number, number][] = [];

  constructor({ columns }: MatrixReader) {
    this.#columns = columns;
    this.#byColumn = new Float64Array(columns);
  }

  add({ rowBegin, rowEnd, numbers }: RowBlock): void {
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

  /** Returns the column norms over the rows that were read. If these are a sample, norms of whole columns are larger. */
  ofColumns(): Series {
    return joined(Array.from(this.#byColumn, (_, i) => i), Array.from(this.#byColumn, Math.sqrt));
  }
}

/** Averages neighbours into one point. */
function joined(positions: number[], values: number[]): Series {
  const step = Math.max(1, Math.ceil(values.length / MAX_POINTS));
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
