/** Summarises the values of a vector in bins, for a line plot. */

import { isRead } from "./aggregate.js";
import type { MatrixReader } from "./matrix-reader.js";
import type { VectorSeries } from "./protocol.js";
import type { Context } from "./context.js";

export interface VectorRange {
  readonly begin: number;
  readonly end: number;
  /** The maximum number of bins. */
  readonly bins: number;
  /** True to fetch missing values. */
  readonly fetch: boolean;
}

/** Returns the range and the mean of each bin of a matrix with one column. */
export async function vectorSeries(reader: MatrixReader, range: VectorRange, context: Context): Promise<VectorSeries> {
  const begin = Math.max(0, Math.min(reader.rows - 1, Math.floor(range.begin)));
  const end = Math.max(begin + 1, Math.min(reader.rows, Math.ceil(range.end)));
  if (range.fetch) await reader.readRows(begin, end, context, () => {});
  const bins = Math.max(1, Math.min(range.bins, end - begin));
  const [mins, maxs, means] = [Number.NaN, Number.NaN, Number.NaN].map((value) => new Float64Array(bins).fill(value)) as [Float64Array<ArrayBuffer>, Float64Array<ArrayBuffer>, Float64Array<ArrayBuffer>];
  for (let bin = 0; bin < bins; bin++) {
    const [from, to] = [begin + Math.floor((bin * (end - begin)) / bins), begin + Math.floor(((bin + 1) * (end - begin)) / bins)];
    let [min, max, sum, count] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0, 0];
    for (let row = reader.nextCached(from, to); row < to; row = reader.nextCached(row, to)) {
      const block = reader.cached(row)!;
      const stop = Math.min(to, block.rowEnd);
      for (; row < stop; row++) {
        const value = block.numbers[row - block.rowBegin]!;
        // A NaN affects only the mean.
        if (value < min) min = value;
        if (value > max) max = value;
        sum += value;
        count += 1;
      }
    }
    if (count > 0) [mins[bin], maxs[bin], means[bin]] = [min, max, sum / count];
  }
  return { begin, end, mins, maxs, means, isComplete: isRead(reader, { rowBegin: begin, rowEnd: end, columnBegin: 0, columnEnd: 1 }) };
}
