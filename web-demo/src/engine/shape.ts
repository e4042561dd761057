/** Maps a tensor of any shape to a matrix. */

/** The minimum number of columns. Shorter rows are joined, so that a stack of small kernels has one kernel per row. */
const MIN_COLUMNS = 64;

export interface MatrixShape {
  readonly rows: number;
  readonly columns: number;
}

/** Returns the rows and columns for a shape. A vector, of any rank, becomes a single column. */
export function matrixShape(shape: readonly number[]): MatrixShape {
  const count = shape.reduce((product, size) => product * size, 1);
  if (count === 0) return { rows: 0, columns: 0 };
  if (Math.max(1, ...shape) === count) return { rows: count, columns: 1 };
  const columns = shape.slice(firstColumn(shape)).reduce((product, size) => product * size, 1);
  return { rows: count / columns, columns };
}

/** Returns the index of the first dimension that belongs to the columns. */
function firstColumn(shape: readonly number[]): number {
  const count = shape.reduce((product, size) => product * size, 1);
  let [columns, first] = [1, shape.length];
  for (; first > 0 && (columns < MIN_COLUMNS || first === shape.length); first--) {
    if (columns * shape[first - 1]! === count && columns > 1) break;
    columns *= shape[first - 1]!;
  }
  return first;
}

/** Returns the dimensions that are folded into rows and into columns; `undefined` for shapes of at most two dimensions. */
export function foldOf(shape: readonly number[]): { readonly rows: readonly number[]; readonly columns: readonly number[] } | undefined {
  if (shape.length <= 2) return undefined;
  const first = firstColumn(shape);
  return { rows: shape.slice(0, first), columns: shape.slice(first) };
}
