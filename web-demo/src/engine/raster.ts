/** Renders an area of a matrix as an image. */

import { aggregate, cellsOf, clampArea, isForBand, isRead } from "./aggregate.js";
import { bandLevel } from "./bands.js";
import { colourLimit, exceeds } from "./colour-limit.js";
import type { MatrixReader } from "./matrix-reader.js";
import { palette } from "./palette.js";
import type { Area, Probe, Raster, RasterRequest } from "./protocol.js";
import type { Context } from "./context.js";
import { transfer } from "./transfer.js";

/** The opacity of band levels, 0 to 255. The hatching of unread rows shows through them. */
const BAND_ALPHA = 150;

export async function raster(reader: MatrixReader, request: RasterRequest, context: Context): Promise<Raster> {
  const area = clampArea(request.area, reader);
  const view = clampArea(request.view, reader);
  if (request.fetch) await reader.readRows(area.rowBegin, area.rowEnd, context, () => {});
  const width = Math.max(1, Math.min(request.width, area.columnEnd - area.columnBegin));
  const height = Math.max(1, Math.min(request.height, area.rowEnd - area.rowBegin));
  const isRms = request.shading === "rms";
  const { levels, rowRms, columnRms, rowMarks, columnMarks, isBanded } = aggregate(reader, area, view, width, height, isRms, reader.stored);
  const { limit: ownLimit, max, hasNonFinite, hasFinite } = colourLimit(inView(levels, area, view, width, height), isRms);
  const limit = request.limit ?? ownLimit;
  const colours = palette(request.shading, request.dark);
  const rgba = new Uint8ClampedArray(width * height * 4);
  const pixels = new Uint32Array(rgba.buffer);
  for (let i = 0; i < levels.length; i++) pixels[i] = colours(levels[i]! / limit);
  for (let y = 0; y < height; y++) if (isBanded[y] === 1) for (let x = 0; x < width; x++) rgba[4 * (y * width + x) + 3] = BAND_ALPHA;
  const bandRows = isBanded.includes(1) ? reader.stored?.bandRows : undefined;
  return transfer({ area, width, height, rgba, limit, ownLimit, isExceeded: exceeds(max, limit), hasNonFinite, hasFinite, rowRms, columnRms, rowMarks, columnMarks, isComplete: isRead(reader, view), ...(hasNonFinite && { marks: marksOf(levels) }), ...(bandRows !== undefined && { bandRows }) }, [rgba.buffer]);
}

/** Returns an image whose opaque pixels are those of levels that are not finite, for the pattern that marks them. */
function marksOf(levels: Float64Array): Uint8ClampedArray<ArrayBuffer> {
  const rgba = new Uint8ClampedArray(levels.length * 4);
  levels.forEach((level, i) => (rgba[4 * i + 3] = Math.abs(level) === Number.POSITIVE_INFINITY ? 255 : 0));
  return rgba;
}

/** Returns the sums over the cells of an area that are in memory, and the level of its bands if its pixels show that. */
export function probe(reader: MatrixReader, asked: Area): Probe {
  const area = clampArea(asked, reader);
  const cells = cellsOf(reader, area);
  const readRows = cells.count / (area.columnEnd - area.columnBegin);
  const band = reader.stored && isForBand(readRows, area.rowEnd - area.rowBegin) ? bandLevel(reader.stored, area.rowBegin, area.rowEnd, reader.rows) : undefined;
  return { ...cells, ...(band && { band }) };
}

/** Returns the levels of the pixels in view. Pixels around the view must not affect the colours. */
function inView(levels: Float64Array, area: Area, view: Area, width: number, height: number): Float64Array {
  const across = (column: number) => Math.round(((column - area.columnBegin) / (area.columnEnd - area.columnBegin)) * width);
  const down = (row: number) => Math.round(((row - area.rowBegin) / (area.rowEnd - area.rowBegin)) * height);
  const [left, right, top, bottom] = [across(view.columnBegin), across(view.columnEnd), down(view.rowBegin), down(view.rowEnd)];
  if (right - left >= width && bottom - top >= height) return levels;
  const some = new Float64Array((right - left) * (bottom - top));
  for (let y = top; y < bottom; y++) some.set(levels.subarray(y * width + left, y * width + right), (y - top) * (right - left));
  return some;
}
