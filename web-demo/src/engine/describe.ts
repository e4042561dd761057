/** Describes a tensor: statistics of all its rows, or of a sample. */

import { ValueStats } from "./value-stats.js";
import { marginOf } from "./jackknife.js";
import type { Compared, MatrixReader, RowBlock } from "./matrix-reader.js";
import type { Description, FigureMargins } from "./protocol.js";
import type { Context } from "./context.js";

export async function describe(reader: MatrixReader, whole: boolean, context: Context): Promise<Description> {
  await reader.prepare(context);
  const stats = new ValueStats();
  const rows = new RowCounter(reader);
  let changed = 0;
  let squares = 0;
  let skipped = 0;
  const groups: Group[] = [];
  const use = (block: RowBlock) => {
    stats.add(block);
    rows.add(block);
    const compared = reader.compare?.(block);
    groups.push(groupOf(block, compared));
    if (!compared) return;
    changed += compared.changed;
    squares += compared.squares;
    skipped += compared.skipped;
  };
  const strips = whole ? [[0, reader.rows] as const] : reader.sample;
  const all = strips.reduce((sum, [begin, end]) => sum + end - begin, 0);
  let done = 0;
  // The strips of a sample are read concurrently, so that they share round trips.
  const visits = strips.map(async ([begin, end]) => {
    const onStep: Context["onStep"] = strips.length === 1 ? context.onStep : () => {};
    await reader.readRows(begin, end, { signal: context.signal, onStep }, use, whole || reader.isSmall ? undefined : "sample");
    done += end - begin;
    if (strips.length > 1) context.onStep({ loadedBytes: done, totalBytes: all });
  });
  await Promise.all(visits);
  const { count, zeros, nans, infinities, norm, mean, standardDeviation } = stats;
  const nothing = stats.finite === 0;
  const margins = rows.rowsRead < reader.rows ? marginsOf(groups, reader.count, count) : undefined;
  return {
    ...(margins && { margins }),
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
    ...(reader.costBytes !== undefined && { costBytes: reader.costBytes }),
    ...(reader.bits && { exponents: stats.exponents(reader.bits) }),
    ...(reader.compare && { difference: { changed, relativeNorm: norm / Math.sqrt(squares), skipped } }),
  };
}

/** The sums over one block of a sample. */
interface Group {
  readonly count: number;
  readonly sum: number;
  readonly squares: number;
  readonly changed: number;
  readonly baseSquares: number;
}

function groupOf({ numbers }: RowBlock, compared: Compared | undefined): Group {
  let [finite, sum, squares] = [0, 0, 0];
  for (let i = 0; i < numbers.length; i++) {
    const value = numbers[i]!;
    if (value - value !== 0) continue;
    finite += 1;
    sum += value;
    squares += value * value;
  }
  return { count: finite, sum, squares, changed: compared?.changed ?? 0, baseSquares: compared?.squares ?? 0 };
}

/**
 * Returns the margins of figures that were estimated from `count` of `total` values; `undefined` if the sample has too
 * few groups.
 */
function marginsOf(groups: readonly Group[], total: number, count: number): FigureMargins | undefined {
  const over = (some: readonly Group[], of: (group: Group) => number): number => some.reduce((sum, group) => sum + of(group), 0);
  const mean = (some: readonly Group[]): number => over(some, ({ sum }) => sum) / over(some, (group) => group.count);
  const meanSquare = (some: readonly Group[]): number => over(some, ({ squares }) => squares) / over(some, (group) => group.count);
  const margin = (estimate: (some: readonly Group[]) => number): number | undefined => marginOf(groups, count / total, estimate);
  const [ofMean, standardDeviation, norm] = [margin(mean), margin((some) => Math.sqrt(Math.max(0, meanSquare(some) - mean(some) ** 2))), margin((some) => Math.sqrt(meanSquare(some) * total))];
  if (ofMean === undefined || standardDeviation === undefined || norm === undefined) return undefined;
  const changed = margin((some) => over(some, (group) => group.changed) / over(some, (group) => group.count));
  const relativeNorm = margin((some) => Math.sqrt(over(some, ({ squares }) => squares) / over(some, ({ baseSquares }) => baseSquares)));
  return { mean: ofMean, standardDeviation, norm, ...(changed !== undefined && { changed }), ...(relativeNorm !== undefined && { relativeNorm }) };
}

/** Counts the rows that were read, and those that contain only zeros. */
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
