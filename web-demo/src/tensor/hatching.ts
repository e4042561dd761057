/** The patterns for the areas of a plot that have not been read, and for values that are not finite. */

import { colour } from "../page/element.js";

/** The distance between the lines, in pixels. */
const PERIOD = 7;

/** Returns a pattern of fine diagonal lines, for areas that have not been read. */
export const hatching = (ctx: CanvasRenderingContext2D): CanvasPattern | string => lines(ctx, "map-unread", "hatch", false);

/** Returns a pattern of crossed lines, for values that are not finite. */
export const crossing = (ctx: CanvasRenderingContext2D): CanvasPattern | string => lines(ctx, "accent", "ink", true);

function lines(ctx: CanvasRenderingContext2D, ground: string, line: string, isCrossed: boolean): CanvasPattern | string {
  const tile = document.createElement("canvas");
  tile.width = tile.height = PERIOD;
  const pen = tile.getContext("2d");
  if (!pen) return colour(ground);
  pen.fillStyle = colour(ground);
  pen.fillRect(0, 0, PERIOD, PERIOD);
  pen.strokeStyle = colour(line);
  pen.lineWidth = 1;
  for (const shift of [-PERIOD, 0, PERIOD]) {
    for (const [from, to] of isCrossed ? [[PERIOD, 0], [0, PERIOD]] as const : [[PERIOD, 0]] as const) {
      pen.beginPath();
      pen.moveTo(shift, from);
      pen.lineTo(shift + PERIOD, to);
      pen.stroke();
    }
  }
  return ctx.createPattern(tile, "repeat") ?? colour(ground);
}
