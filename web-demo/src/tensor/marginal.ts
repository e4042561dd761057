/** Marginal strips: the root mean square by row or by column, along the edge of a heatmap. */

import { colour, fitCanvas } from "../page/element.js";

export interface MarginalData {
  /** One value per pixel of the image, NaN where nothing was read, and the range of rows or columns they cover. */
  readonly values: Float32Array;
  readonly begin: number;
  readonly end: number;
}

/** Returns the largest finite value. */
export function largest(...all: readonly Float32Array[]): number {
  let most = 0;
  for (const values of all) for (const value of values) if (Number.isFinite(value) && value > most) most = value;
  return most;
}

/** Draws a strip. `begin` to `end` is the view, and a value of `limit` is as long as the strip is thick. */
export function drawMarginal(canvas: HTMLCanvasElement, { values, ...data }: MarginalData, begin: number, end: number, limit: number, direction: "across" | "down"): void {
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
    let [most, isMarked] = [Number.NaN, false];
    for (let i = Math.max(0, first); i < Math.min(values.length, last); i++) {
      const value = values[i]!;
      if (value === Number.POSITIVE_INFINITY) isMarked = true;
      else if (!(value <= most)) most = Number.isNaN(value) ? most : value;
    }
    if (Number.isNaN(most) && !isMarked) continue;
    ctx.fillStyle = isMarked ? marked : line;
    const long = isMarked ? thickness : Math.max(pixel, (most / limit) * (thickness - 2));
    if (direction === "across") ctx.fillRect(at, height - long, pixel, long);
    else ctx.fillRect(0, at, long, pixel);
  }
}
