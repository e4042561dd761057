/** The pattern for the areas of a tensor that have not been read. */

import { colour } from "../page/element.js";

/** The distance between the lines, in pixels. */
const PERIOD = 7;

/** Returns a pattern of fine diagonal lines in the colours of the page. */
export function hatching(ctx: CanvasRenderingContext2D): CanvasPattern | string {
  const tile = document.createElement("canvas");
  tile.width = tile.height = PERIOD;
  const pen = tile.getContext("2d");
  if (!pen) return colour("map-empty");
  pen.fillStyle = colour("map-unread");
  pen.fillRect(0, 0, PERIOD, PERIOD);
  pen.strokeStyle = colour("hatch");
  pen.lineWidth = 1;
  for (const shift of [-PERIOD, 0, PERIOD]) {
    pen.beginPath();
    pen.moveTo(shift, PERIOD);
    pen.lineTo(shift + PERIOD, 0);
    pen.stroke();
  }
  return ctx.createPattern(tile, "repeat") ?? colour("map-empty");
}
