/** Finds the rows of a tensor that have a problem, by reading them. */

import type { Context } from "./context.js";
import type { MatrixReader } from "./matrix-reader.js";
import type { LocateRequest, Located } from "./protocol.js";

/** The maximum number of rows that are returned; all are counted. */
const MAX_ROWS = 200;

/** Reads ranges of rows, and returns the rows with NaN or infinite values, the rows of zeros, or the row of the largest magnitude. */
export async function locate(matrix: MatrixReader, { ranges, problem }: LocateRequest, context: Context): Promise<Located> {
  await matrix.prepare(context);
  const { columns } = matrix;
  const rows: number[] = [];
  let count = 0;
  let column: number | undefined;
  let largest = -1;
  const total = ranges.reduce((sum, [begin, end]) => sum + end - begin, 0);
  let done = 0;
  for (const [begin, end] of ranges) {
    await matrix.readRows(begin, end, { signal: context.signal, onStep: () => {} }, ({ rowBegin, numbers }) => {
      for (let row = 0; row * columns < numbers.length; row++) {
        const at = row * columns;
        if (problem === "outlier") {
          const [place, magnitude] = largestIn(numbers, at, at + columns);
          if (magnitude > largest) [rows[0], column, largest, count] = [rowBegin + row, place - at, magnitude, 1];
          continue;
        }
        const place = PROBLEMS[problem](numbers, at, at + columns);
        if (place < 0) continue;
        // The column is useful only if there is a single row.
        column = count === 0 ? place - at : undefined;
        if (count++ < MAX_ROWS) rows.push(rowBegin + row);
      }
    });
    done += end - begin;
    context.onStep({ loadedBytes: done, totalBytes: total });
  }
  return { rows, count, column: problem === "dead" ? undefined : column };
}

type Search = (numbers: ArrayLike<number>, begin: number, end: number) => number;

/** Returns the position of the first number that meets a condition; -1 if none does. */
const first = (meets: (value: number) => boolean): Search => (numbers, begin, end) => {
  for (let i = begin; i < end; i++) if (meets(numbers[i]!)) return i;
  return -1;
};

const firstNonZero = first((value) => value !== 0);

const PROBLEMS: Readonly<Record<Exclude<LocateRequest["problem"], "outlier">, Search>> = {
  nan: first(Number.isNaN),
  infinite: first((value) => value === Number.POSITIVE_INFINITY || value === Number.NEGATIVE_INFINITY),
  dead: (numbers, begin, end) => (firstNonZero(numbers, begin, end) < 0 ? begin : -1),
};

/** Returns the position and the magnitude of the finite number with the largest magnitude. */
function largestIn(numbers: ArrayLike<number>, begin: number, end: number): [place: number, magnitude: number] {
  let [place, most] = [begin, -1];
  for (let i = begin; i < end; i++) {
    const magnitude = Math.abs(numbers[i]!);
    if (magnitude > most && magnitude < Number.POSITIVE_INFINITY) [place, most] = [i, magnitude];
  }
  return [place, most];
}
