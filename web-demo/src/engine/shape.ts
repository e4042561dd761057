/** A tensor of any shape seen as a matrix. */

/** A row shorter than this is joined with its neighbours, so that a stack of small kernels has a kernel to a row. */
const LEAST_COLUMNS = 64;

export interface MatrixShape {
  readonly rows: number;
  readonly columns: number;
}

/** Rows and columns for a shape, outermost dimension first. A vector is folded to something like a square. */
export function matrixShape(shape: readonly number[]): MatrixShape {
  const count = shape.reduce((product, size) => product * size, 1);
  if (count === 0) return { rows: 0, columns: 0 };
  const longest = Math.max(1, ...shape);
  if (longest === count) {
    const columns = count <= LEAST_COLUMNS ? count : foldedColumns(count);
    return { rows: Math.ceil(count / columns), columns };
  }
  let columns = 1;
  for (let i = shape.length - 1; i >= 0 && (columns < LEAST_COLUMNS || i === shape.length - 1); i--) {
    if (columns * shape[i]! === count && columns > 1) break;
    columns *= shape[i]!;
  }
  return { rows: count / columns, columns };
}

/** Columns for a long vector: the least from its root on that leave no gap, if they are not many times more. */
function foldedColumns(count: number): number {
  const root = Math.ceil(Math.sqrt(count));
  for (let columns = root; columns <= 3 * root; columns++) if (count % columns === 0) return columns;
  return Math.ceil(root / 8) * 8;
}
