/** Marginal strips: the root mean square of each row or column, along the edge of a heatmap. */

import { colour, fitCanvas } from "../page/element.js";

export interface MarginalData {
  /**
   * One value for each pixel of the image; NaN if no cell was read. `begin` and `end` are the rows or columns that the
   * values cover.
   */
  readonly values: Float32Array;
  /** For each value, 1 if one of its cells is not finite. Such a value has a mark at the edge. */
  readonly marks: Uint8Array;
  readonly begin: number;
  readonly end: number;
}

/** The length of a mark for values that are not finite, in pixels. */
const MARK_PX = 4;

/** Returns the largest finite value. */
export function largest(...all: readonly Float32Array[]): number {
  let most = 0;
  for (const values of all) for (const value of values) if (Number.isFinite(value) && value > most) most = value;
  return most;
}

/** Draws a strip for the view from `begin` to `end`. A value of `limit` is drawn as long as the strip is thick. */
export function drawMarginal(canvas: HTMLCanvasElement, { values, marks, ...data }: MarginalData, begin: number, end: number, limit: number, direction: "across" | "down"): void {
  const fitted = fitCanvas(canvas);
  if (!fitted) return;
  const { ctx, width, height } = fitted;
  const density = canvas.width / width;
  const [length, thickness] = direction === "across" ? [width, height] : [height, width];
  const pixel = 1 / density;
  ctx.clearRect(0, 0, width, height);
  const [line, marked] = [colour("saved"), colour("accent")];
  const scale = (data.end - data.begin) / values.length;
  for (let at = 0; at < length; at += pixel) {
    const first = Math.floor((begin + (at / length) * (end - begin) - data.begin) / scale);
    const last = Math.max(first + 1, Math.floor((begin + ((at + pixel) / length) * (end - begin) - data.begin) / scale));
    let [most, isAll, isMarked] = [Number.NaN, false, false];
    for (let i = Math.max(0, first); i < Math.min(values.length, last); i++) {
      const value = values[i]!;
      if (marks[i] === 1) isMarked = true;
      if (value === Number.POSITIVE_INFINITY) isAll = true;
      else if (!(value <= most)) most = Number.isNaN(value) ? most : value;
    }
    const fill = (style: string, from: number, long: number): void => {
      ctx.fillStyle = style;
      if (direction === "across") ctx.fillRect(at, height - from - long, pixel, long);
      else ctx.fillRect(from, at, long, pixel);
    };
    if (isAll) fill(marked, 0, thickness);
    else if (!Number.isNaN(most)) fill(line, 0, Math.max(pixel, (most / limit) * (thickness - 2)));
    if (isMarked) fill(marked, thickness - MARK_PX, MARK_PX);
  }
}
