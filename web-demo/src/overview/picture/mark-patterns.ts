/** The patterns of marks on a canvas, identical to the patterns in style/picture.css. */

import { colour } from "../../page/element.js";
import type { Mark } from "./metric.js";

/** The size of a tile, in pixels. */
const TILE = 8;

/** Returns a pattern for each mark: crossed lines, dots, and thin lines. */
export function markPatterns(ctx: CanvasRenderingContext2D): Readonly<Record<Mark, CanvasPattern | string>> {
  const tile = (draw: (pen: CanvasRenderingContext2D) => void): CanvasPattern | string => {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = TILE;
    const pen = canvas.getContext("2d");
    if (pen) draw(pen);
    return ctx.createPattern(canvas, "repeat") ?? colour("accent");
  };
  const line = (pen: CanvasRenderingContext2D, fromX: number, toX: number): void => {
    pen.beginPath();
    pen.moveTo(fromX, 0);
    pen.lineTo(toX, TILE);
    pen.stroke();
  };
  return {
    "non-finite": tile((pen) => {
      pen.fillStyle = colour("surface");
      pen.fillRect(0, 0, TILE, TILE);
      pen.strokeStyle = colour("accent");
      pen.lineWidth = 2;
      line(pen, 0, TILE);
      line(pen, TILE, 0);
    }),
    changed: tile((pen) => {
      pen.fillStyle = colour("change-high");
      pen.fillRect(2, 2, 3, 3);
    }),
    sampled: tile((pen) => {
      pen.strokeStyle = colour("hatch");
      pen.lineWidth = 1;
      line(pen, TILE, 0);
    }),
  };
}
