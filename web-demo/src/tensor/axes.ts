/** Draws the axes of a plot, with ticks at round numbers. */

import { colour, fitCanvas } from "../page/element.js";
import { formatCount } from "../page/format.js";

/** The minimum distance of two ticks, in CSS pixels. */
const TICK_PIXELS = { across: 72, down: 44 };
const TICK_LENGTH = 4;
export const AXIS_FONT = '11px ui-sans-serif, system-ui, "DejaVu Sans", sans-serif';

/** Returns at most `most` round numbers from `begin` to `end`; only integers if `isWhole` is set. */
export function ticks(begin: number, end: number, most: number, isWhole = true): number[] {
  const least = (end - begin) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(least));
  const step = Math.max(isWhole ? 1 : 0, ([1, 2, 5, 10].find((factor) => factor * power >= least * 0.999) ?? 10) * power);
  const first = Math.ceil(begin / step - 1e-9);
  return Array.from({ length: Math.max(0, Math.floor(end / step + 1e-9) - first + 1) }, (_, i) => (first + i) * step);
}

/**
 * Draws the axis of rows or columns. If cells are large, ticks point to the middle of a cell. `size` is the number of
 * cells.
 */
export function drawAxis(canvas: HTMLCanvasElement, begin: number, end: number, size: number, direction: "across" | "down"): void {
  const fitted = fitCanvas(canvas);
  if (!fitted) return;
  const { ctx, width, height } = fitted;
  const length = direction === "across" ? width : height;
  const cell = length / (end - begin);
  ctx.clearRect(0, 0, width, height);
  ctx.font = AXIS_FONT;
  ctx.fillStyle = colour("quiet");
  ctx.strokeStyle = colour("bar");
  ctx.textBaseline = direction === "across" ? "top" : "middle";
  for (const tick of ticks(begin, end, Math.floor(length / TICK_PIXELS[direction]))) {
    if (tick < 0 || tick >= size) continue;
    const at = (tick - begin + (cell > 6 ? 0.5 : 0)) * cell;
    if (at < -1 || at > length + 1) continue;
    const line = Math.round(at) + 0.5;
    const label = formatCount(tick);
    ctx.beginPath();
    if (direction === "across") {
      ctx.moveTo(line, 0);
      ctx.lineTo(line, TICK_LENGTH);
      const half = ctx.measureText(label).width / 2;
      ctx.textAlign = "center";
      ctx.fillText(label, Math.min(width - half, Math.max(half, at)), TICK_LENGTH + 3);
    } else {
      ctx.moveTo(width, line);
      ctx.lineTo(width - TICK_LENGTH, line);
      ctx.textAlign = "right";
      ctx.fillText(label, width - TICK_LENGTH - 4, Math.min(height - 6, Math.max(6, at)));
    }
    ctx.stroke();
  }
}
