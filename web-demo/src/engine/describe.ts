/** Describing a tensor: statistics of all its rows, or of a sample. */

import { ValueStats } from "./value-stats.js";
import type { MatrixReader, RowBlock } from "./matrix-reader.js";
import type { Description } from "./protocol.js";
import type { Context } from "./context.js";

export async function describe(reader: MatrixReader, whole: boolean, context: Context): Promise<Description> {
  await reader.prepare(context);
  const stats = new ValueStats();
  const rows = new RowCounter(reader);
  let changed = 0;
  let squares = 0;
  let skipped = 0;
  const use = (block: RowBlock) => {
    stats.add(block);
    rows.add(block);
    if (!reader.compare) return;
    const compared = reader.compare(block);
    changed += compared.changed;
    squares += compared.squares;
    skipped += compared.skipped;
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
    total: reader.count,
    rowsRead: rows.rowsRead,
    count, zeros, nans, infinities, norm, mean, standardDeviation,
    min: nothing ? Number.NaN : stats.min,
    max: nothing ? Number.NaN : stats.max,
    zeroRows: rows.zeroRows,
    histogram: stats.histogram(),
    magnitudes: stats.magnitudes(),
    ...(reader.stored && rows.rowsRead < reader.rows && { stored: reader.stored.whole }),
    ...(reader.bits && { exponents: stats.exponents(reader.bits) }),
    ...(reader.compare && { difference: { changed, relativeNorm: norm / Math.sqrt(squares), skipped } }),
  };
}

/** Counts rows, and those that are all zeros. */
class RowCounter {
  rowsRead = 0;
  zeroRows = 0;
  readonly #columns: number;

  constructor({ columns }: MatrixReader) {
    this.#columns = columns;
  }

  add({ rowBegin, rowEnd, numbers }: RowBlock): void {
    this.rowsRead += rowEnd - rowBegin;
    if (this.#columns === 1) return;
    for (let at = 0; at < numbers.length; at += this.#columns) {
      let column = 0;
      while (column < this.#columns && numbers[at + column] === 0) column += 1;
      if (column === this.#columns) this.zeroRows += 1;
    }
  }
}
