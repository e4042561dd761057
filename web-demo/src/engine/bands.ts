/**
 * Figures of bands of rows, which were stored when the file was packed. Reading them takes a few bytes and no tensor
 * values.
 */

import type { Figures, Model, TensorInfo } from "zstn";

/** The figures of the bands of a matrix, and of the whole matrix. */
export interface StoredFigures {
  readonly whole: Figures;
  /**
   * The number of matrix rows in each band; the last band can have fewer. Absent if bands do not begin at the start of
   * matrix rows.
   */
  readonly bandRows: number | undefined;
  readonly bands: readonly Figures[];
}

/**
 * Returns the stored figures of a tensor that is shown as a matrix with `columns` columns; `undefined` if the file has
 * none.
 */
export async function storedFigures(model: Model, info: TensorInfo, columns: number, signal: AbortSignal): Promise<StoredFigures | undefined> {
  // A tensor without statistics, or with damaged ones, is sampled instead.
  const found = await model.statistics(info.name, { signal }).catch(() => undefined);
  signal.throwIfAborted();
  if (!found) return undefined;
  const bandRows = (found.rowsPerBand * (info.shape.at(-1) ?? 1)) / columns;
  const isUsable = columns > 1 && Number.isInteger(bandRows) && (found.bands?.length ?? 0) > 1;
  const { count, min, max, mean, rms, zeros, nans, infinities } = found;
  return { whole: { count, min, max, mean, rms, zeros, nans, infinities }, bandRows: isUsable ? bandRows : undefined, bands: found.bands ?? [] };
}

/** The mean and the root mean square of some rows, estimated from the bands that contain them. */
export interface BandLevel {
  readonly rowBegin: number;
  readonly rowEnd: number;
  readonly mean: number;
  readonly rms: number;
  readonly hasNonFinite: boolean;
}

/** Returns the level of the bands that contain rows `begin` to `end` (exclusive). */
export function bandLevel({ bandRows, bands }: StoredFigures, begin: number, end: number, rows: number): BandLevel | undefined {
  if (bandRows === undefined) return undefined;
  const [first, last] = [Math.floor(begin / bandRows), Math.min(bands.length, Math.ceil(end / bandRows))];
  let [sum, squares, weights, hasNonFinite] = [0, 0, 0, false];
  for (let i = first; i < last; i++) {
    const band = bands[i]!;
    const weight = Math.min(end, (i + 1) * bandRows) - Math.max(begin, i * bandRows);
    if (band.nans + band.infinities > 0) hasNonFinite = true;
    if (!Number.isFinite(band.rms)) continue;
    sum += band.mean * weight;
    squares += band.rms ** 2 * weight;
    weights += weight;
  }
  return { rowBegin: first * bandRows, rowEnd: Math.min(rows, last * bandRows), mean: sum / weights, rms: Math.sqrt(squares / weights), hasNonFinite };
}
