/** The statistics of all tensors of a model in one array of numbers, which passes between threads at once. */

import type { TensorInfo, TensorStatistics } from "zstn";
import type { ListedTensor } from "./tensor-table.js";

const FIELDS = ["count", "min", "max", "mean", "rms", "zeros", "nans", "infinities"] as const;

/** Statistics by field. Those of a tensor are at its index; a tensor without statistics has the count NaN. */
export type StatisticsColumns = Float64Array<ArrayBuffer>;

/** Statistics without those of bands. */
export type PlainStatistics = Pick<TensorStatistics, (typeof FIELDS)[number]>;

/** Statistics of a tensor, stored or measured. `zeroRows` is the number of rows that contain only zeros, known only if all values were read. */
export interface Measured extends PlainStatistics {
  readonly zeroRows?: number;
}

/** Returns the statistics of the tensors in one array; `undefined` if no tensor has any. */
export function statisticsColumns(tensors: readonly TensorInfo[], statistics: ReadonlyMap<string, PlainStatistics> | undefined): StatisticsColumns | undefined {
  if (!statistics || statistics.size === 0) return undefined;
  const columns = new Float64Array(FIELDS.length * tensors.length).fill(Number.NaN);
  for (const [i, { name }] of tensors.entries()) {
    const own = statistics.get(name);
    if (own) FIELDS.forEach((field, at) => (columns[FIELDS.length * i + at] = own[field]));
  }
  return columns;
}

export class StatisticsTable {
  readonly #columns: StatisticsColumns;

  constructor(columns: StatisticsColumns) {
    this.#columns = columns;
  }

  /** Returns the statistics of a tensor of the model's table. */
  of(tensor: TensorInfo): PlainStatistics | undefined {
    const begin = FIELDS.length * (tensor as ListedTensor).index;
    const [count, min, max, mean, rms, zeros, nans, infinities] = this.#columns.subarray(begin, begin + FIELDS.length) as unknown as [number, number, number, number, number, number, number, number];
    return count >= 0 ? { count, min, max, mean, rms, zeros, nans, infinities } : undefined;
  }
}
