/** Reads single values for the table. */

import type { MatrixReader } from "./matrix-reader.js";
import type { Area, Values } from "./protocol.js";
import type { Context } from "./context.js";

export async function valuesOf(reader: MatrixReader, asked: Area, context: Context): Promise<Values> {
  const area = {
    rowBegin: Math.max(0, Math.min(asked.rowBegin, reader.rows)),
    rowEnd: Math.min(reader.rows, asked.rowEnd),
    columnBegin: Math.max(0, Math.min(asked.columnBegin, reader.columns)),
    columnEnd: Math.min(reader.columns, asked.columnEnd),
  };
  const width = Math.max(0, area.columnEnd - area.columnBegin);
  const values = new Float64Array(Math.max(0, area.rowEnd - area.rowBegin) * width).fill(Number.NaN);
  await reader.readRows(area.rowBegin, area.rowEnd, context, ({ rowBegin, rowEnd, numbers }) => {
    for (let row = rowBegin; row < rowEnd; row++) {
      for (let column = 0; column < width; column++) {
        const at = (row - rowBegin) * reader.columns + area.columnBegin + column;
        if (at < numbers.length) values[(row - area.rowBegin) * width + column] = numbers[at]!;
      }
    }
  });
  return { area, values };
}
