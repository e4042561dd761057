/** Renders the thumbnail of a tensor, from a sample of bounded size. */

import { aggregate } from "./aggregate.js";
import type { RowsInMemory } from "./aggregate.js";
import type { Matrix } from "./matrix.js";
import type { RowBlock } from "./matrix-reader.js";
import type { Thumbnail } from "./protocol.js";
import { ValueStats } from "./value-stats.js";
import type { Context } from "./context.js";

/**
 * Reads the sample of a tensor and returns its thumbnail, which shows the rows that were read without the gaps between
 * them.
 */
export async function thumbnail(matrix: Matrix, width: number, height: number, context: Context): Promise<Thumbnail> {
  await matrix.prepare(context);
  const stats = new ValueStats();
  const blocks: RowBlock[] = [];
  const use = (block: RowBlock) => {
    stats.add(block);
    blocks.push(block);
  };
  const reads = matrix.sample.map(([begin, end]) => matrix.readRows(begin, end, { signal: context.signal, onStep: () => {} }, use, matrix.isSmall ? undefined : "sample"));
  await Promise.all(reads);
  blocks.sort((a, b) => a.rowBegin - b.rowBegin);
  const rowsRead = blocks.reduce((sum, block) => sum + block.rowEnd - block.rowBegin, 0);
  const { min, max, mean, zeros, nans, infinities, count, finite, norm } = stats;
  const figures = { min, max, mean, zeros, count, nonFinite: nans + infinities, rms: norm / Math.sqrt(finite), rowsRead, rows: matrix.rows };
  if (rowsRead === 0) return { ...figures, width: 0, height: 0, levels: new Float64Array(0) };
  const joined = matrix.columns === 1 ? across(blocks, rowsRead) : stacked(blocks, rowsRead, matrix.columns);
  const area = { rowBegin: 0, rowEnd: joined.rows, columnBegin: 0, columnEnd: joined.columns };
  const [pixelsAcross, pixelsDown] = [Math.min(width, joined.columns), Math.min(height, joined.rows)];
  const { levels } = aggregate(joined, area, area, pixelsAcross, pixelsDown, matrix.columns > 1);
  return { ...figures, width: pixelsAcross, height: pixelsDown, levels };
}

type Cached = RowsInMemory & { readonly rows: number };

/** Returns the rows of the blocks as one matrix, without the gaps between the blocks. */
function stacked(blocks: readonly RowBlock[], rows: number, columns: number): Cached {
  let row = 0;
  const moved = blocks.map(({ rowBegin, rowEnd, numbers }) => {
    const begin = row;
    row += rowEnd - rowBegin;
    return { rowBegin: begin, rowEnd: row, numbers };
  });
  return { rows, columns, cached: (wanted) => moved.find(({ rowEnd }) => wanted < rowEnd) };
}

/** Returns a vector as a matrix of one row. */
function across(blocks: readonly RowBlock[], count: number): Cached {
  const numbers = new Float64Array(count);
  let at = 0;
  for (const block of blocks) {
    numbers.set(block.numbers, at);
    at += block.numbers.length;
  }
  return { rows: 1, columns: count, cached: () => ({ rowBegin: 0, rowEnd: 1, numbers }) };
}
