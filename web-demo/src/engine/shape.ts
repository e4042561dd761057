/** Viewing a tensor of any shape as a matrix. */

/** Shorter rows are joined, so that a stack of small kernels has one kernel per row. */
const MIN_COLUMNS = 64;

export interface MatrixShape {
  readonly rows: number;
  readonly columns: number;
}

/** Returns rows and columns for a shape. A vector is folded to roughly a square. */
export function matrixShape(shape: readonly number[]): MatrixShape {
  const count = shape.reduce((product, size) => product * size, 1);
  if (count === 0) return { rows: 0, columns: 0 };
  const longest = Math.max(1, ...shape);
  if (longest === count) {
    const columns = count <= MIN_COLUMNS ? count : foldedColumns(count);
    return { rows: Math.ceil(count / columns), columns };
  }
  let columns = 1;
  for (let i = shape.length - 1; i >= 0 && (columns < MIN_COLUMNS || i === shape.length - 1); i--) {
    if (columns * shape[i]! === count && columns > 1) break;
    columns *= shape[i]!;
  }
  return { rows: count / columns, columns };
}

/** Returns the columns of a long vector: the smallest divisor from its square root on, if it is not many times larger. */
function foldedColumns(count: number): number {
  const root = Math.ceil(Math.sqrt(count));
  for (let columns = root; columns <= 3 * root; columns++) if (count % columns === 0) return columns;
  return Math.ceil(root / 8) * 8;
}
