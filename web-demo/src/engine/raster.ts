/** Rendering a part of a matrix as an image. */

import type { MatrixReader, RowBlock } from "./matrix-reader.js";
import { palette } from "./palette.js";
import type { Area, Raster, RasterRequest, Shading } from "./protocol.js";
import type { Context } from "./context.js";

/** The maximum number of cells read for an image. Where more share a pixel, some are skipped. */
const MAX_CELLS = 6 << 20;
/** The fraction of pixels that may exceed the colour scale. */
const BEYOND_SHARE = 0.01;

export async function raster(reader: MatrixReader, request: RasterRequest, context: Context): Promise<Raster> {
  const area = within(request.area, reader);
  if (request.fetch) await reader.readRows(area.rowBegin, area.rowEnd, context, () => {});
  const width = Math.max(1, Math.min(request.width, area.columnEnd - area.columnBegin));
  const height = Math.max(1, Math.min(request.height, area.rowEnd - area.rowBegin));
  const { levels, complete } = reduced(reader, area, width, height, request.shading);
  const limit = fullColour(levels);
  const colours = palette(request.shading, request.dark);
  const rgba = new Uint8ClampedArray(width * height * 4);
  const pixels = new Uint32Array(rgba.buffer);
  for (let i = 0; i < levels.length; i++) pixels[i] = colours(levels[i]! / limit);
  return { area, width, height, rgba, limit, complete };
}

function within({ rowBegin, rowEnd, columnBegin, columnEnd }: Area, { rows, columns }: MatrixReader): Area {
  const [top, left] = [clamp(Math.floor(rowBegin), 0, rows - 1), clamp(Math.floor(columnBegin), 0, columns - 1)];
  return { rowBegin: top, rowEnd: clamp(Math.ceil(rowEnd), top + 1, rows), columnBegin: left, columnEnd: clamp(Math.ceil(columnEnd), left + 1, columns) };
}

/** Returns a level for each pixel; NaN where there is no number, or none is known yet. */
function reduced(reader: MatrixReader, area: Area, width: number, height: number, shading: Shading) {
  const levels = new Float32Array(width * height);
  const [rows, columns] = [area.rowEnd - area.rowBegin, area.columnEnd - area.columnBegin];
  const rowStep = Math.max(1, Math.floor(Math.sqrt((rows * columns) / MAX_CELLS)));
  const columnStep = rowStep;
  const sums = new Float64Array(width);
  const counts = new Float64Array(width);
  const bounds = Int32Array.from({ length: width + 1 }, (_, x) => area.columnBegin + Math.floor((x * columns) / width));
  const squares = shading === "magnitude";
  let complete = true;
  let missing = 0;
  const near = nearestSample(reader);
  for (let y = 0; y < height; y++) {
    const begin = area.rowBegin + Math.floor((y * rows) / height);
    const end = Math.max(begin + 1, area.rowBegin + Math.floor(((y + 1) * rows) / height));
    sums.fill(0);
    counts.fill(0);
    let seen = 0;
    for (let row = begin; row < end; row += rowStep) {
      const block = reader.cached(row);
      if (!block) {
        complete = false;
        continue;
      }
      addRow(block, row);
      seen += 1;
    }
    if (seen === 0) {
      // The nearest row of the sample stands in for rows that are not loaded.
      const row = near((begin + end) / 2);
      const block = row === undefined ? undefined : reader.cached(row);
      if (block) addRow(block, row!);
      else missing += 1;
    }
    for (let x = 0; x < width; x++) {
      const mean = sums[x]! / counts[x]!;
      levels[y * width + x] = squares ? Math.sqrt(mean) : mean;
    }
  }
  return { levels, complete: complete && missing === 0 };

  function addRow({ rowBegin, numbers }: RowBlock, row: number): void {
    const start = (row - rowBegin) * reader.columns;
    for (let x = 0; x < width; x++) {
      let [sum, count] = [0, 0];
      const stop = Math.min(start + bounds[x + 1]!, numbers.length);
      for (let at = start + bounds[x]!; at < stop; at += columnStep) {
        const value = numbers[at]!;
        sum += squares ? value * value : value;
        count += 1;
      }
      sums[x]! += sum;
      counts[x]! += count;
    }
  }
}

/** Returns a function that finds the nearest row of the sample. */
function nearestSample({ sample, isSmall }: MatrixReader): (row: number) => number | undefined {
  if (isSmall || sample.length === 0) return () => undefined;
  return (wanted) => {
    let [best, distance] = [undefined as number | undefined, Number.POSITIVE_INFINITY];
    for (const [begin, end] of sample) {
      const row = clamp(Math.floor(wanted), begin, end - 1);
      const apart = Math.abs(row - wanted);
      if (apart < distance) [best, distance] = [row, apart];
    }
    return best;
  };
}

/** Returns the level that nearly all pixels are below. */
function fullColour(levels: Float32Array): number {
  const step = Math.max(1, Math.floor(levels.length / 20_000));
  const some: number[] = [];
  for (let i = 0; i < levels.length; i += step) {
    const size = Math.abs(levels[i]!);
    if (Number.isFinite(size)) some.push(size);
  }
  some.sort((a, b) => a - b);
  const limit = some[Math.floor((some.length - 1) * (1 - BEYOND_SHARE))] ?? 0;
  return limit > 0 ? limit : (some.at(-1) ?? 0) || 1;
}

const clamp = (value: number, least: number, most: number) => Math.max(least, Math.min(most, value));
