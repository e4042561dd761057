/** Single values, for a table. */

import type { Cells } from "./cells.js";
import type { Area, Values } from "./protocol.js";
import type { Context } from "./worker.js";

export async function valuesOf(cells: Cells, asked: Area, context: Context): Promise<Values> {
  const area = {
    rowBegin: Math.max(0, Math.min(asked.rowBegin, cells.rows)),
    rowEnd: Math.min(cells.rows, asked.rowEnd),
    columnBegin: Math.max(0, Math.min(asked.columnBegin, cells.columns)),
    columnEnd: Math.min(cells.columns, asked.columnEnd),
  };
  const width = Math.max(0, area.columnEnd - area.columnBegin);
  // Beyond the end of a folded vector there is nothing, which is not NaN but looks like it; the page knows the count.
  const values = new Float64Array(Math.max(0, area.rowEnd - area.rowBegin) * width).fill(Number.NaN);
  await cells.visit(area.rowBegin, area.rowEnd, context, ({ rowBegin, rowEnd, numbers }) => {
    for (let row = rowBegin; row < rowEnd; row++) {
      for (let column = 0; column < width; column++) {
        const at = (row - rowBegin) * cells.columns + area.columnBegin + column;
        if (at < numbers.length) values[(row - area.rowBegin) * width + column] = numbers[at]!;
      }
    }
  });
  return { area, values };
}
