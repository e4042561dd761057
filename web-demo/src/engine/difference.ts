/** The difference of two matrices of the same shape. */

import type { MatrixReader, Compared, RowBlock } from "./matrix-reader.js";
import type { Context } from "./context.js";

/** The number of elements of each side that are read in one step. */
const STEP_ELEMENTS = 4 << 20;

export class Difference implements MatrixReader {
  readonly rows: number;
  readonly columns: number;
  readonly count: number;
  readonly bits = undefined;
  readonly #left: MatrixReader;
  readonly #right: MatrixReader;
  /** Recently computed differences, by the block of the left side. */
  readonly #cached = new WeakMap<RowBlock, RowBlock>();

  constructor(left: MatrixReader, right: MatrixReader) {
    if (left.rows !== right.rows || left.columns !== right.columns || left.count !== right.count) {
      throw new Error("These tensors have different shapes, so they cannot be subtracted. View them side by side.");
    }
    this.rows = left.rows;
    this.columns = left.columns;
    this.count = left.count;
    this.#left = left;
    this.#right = right;
  }

  /** The sample of the left side; empty if the right side cannot be sampled. */
  get sample(): readonly (readonly [number, number])[] {
    return this.#right.sample.length > 0 ? this.#left.sample : [];
  }

  get isSmall(): boolean {
    return this.#left.isSmall && this.#right.isSmall;
  }

  async prepare(context: Context): Promise<void> {
    await Promise.all([this.#left.prepare(context), this.#right.prepare(context)]);
  }

  async readRows(rowBegin: number, rowEnd: number, context: Context, use: (block: RowBlock) => void, keep?: "sample"): Promise<void> {
    // The rows are read in steps, so that neither side has to be in memory as a whole.
    const step = keep ? rowEnd - rowBegin : Math.max(1, Math.ceil(STEP_ELEMENTS / Math.max(1, this.columns)));
    for (let row = rowBegin; row < rowEnd; row += step) {
      const end = Math.min(rowEnd, row + step);
      const steps = (which: 0 | 1) => ({ signal: context.signal, onStep: share(context, row - rowBegin, (end - row) / 2, which, rowEnd - rowBegin) });
      const lefts: RowBlock[] = [];
      const rights: RowBlock[] = [];
      await this.#left.readRows(row, end, steps(0), (block) => lefts.push(block), keep);
      await this.#right.readRows(row, end, steps(1), (block) => rights.push(block), keep);
      for (const left of lefts) for (const right of rights) {
        const block = this.#subtract(left, right);
        if (block) use(block);
      }
    }
  }

  nextCached(begin: number, end: number): number {
    let row = begin;
    while (row < end && !this.cached(row)) row = Math.max(row + 1, this.#left.nextCached(row, end), this.#right.nextCached(row, end));
    return Math.min(row, end);
  }

  cached(row: number): RowBlock | undefined {
    const left = this.#left.cached(row);
    const right = this.#right.cached(row);
    if (!left || !right) return undefined;
    const known = this.#cached.get(left);
    if (known && known.rowBegin <= row && row < known.rowEnd) return known;
    const block = this.#subtract(left, right);
    if (block) this.#cached.set(left, block);
    return block;
  }

  /**
   * Counts the values of a block that differ, and sums the squares of the right side's values over pairs whose
   * difference is finite.
   */
  compare(block: RowBlock): Compared {
    let changed = 0;
    let squares = 0;
    let skipped = 0;
    for (let i = 0; i < block.numbers.length; i++) if (block.numbers[i] !== 0) changed += 1;
    for (let row = block.rowBegin; row < block.rowEnd; ) {
      const right = this.#right.cached(row);
      if (!right) break;
      const end = Math.min(right.rowEnd, block.rowEnd);
      const stop = Math.min((end - right.rowBegin) * this.columns, right.numbers.length);
      let at = (row - block.rowBegin) * this.columns;
      for (let i = (row - right.rowBegin) * this.columns; i < stop; i++) {
        const [subtracted, apart] = [right.numbers[i]!, block.numbers[at++]!];
        if (Number.isFinite(subtracted) && Number.isFinite(apart)) squares += subtracted ** 2;
        else skipped += 1;
      }
      row = end;
    }
    return { changed, squares, skipped };
  }

  /** Subtracts the rows that both blocks contain; `undefined` if there are none. */
  #subtract(left: RowBlock, right: RowBlock): RowBlock | undefined {
    const rowBegin = Math.max(left.rowBegin, right.rowBegin);
    const rowEnd = Math.min(left.rowEnd, right.rowEnd);
    if (rowEnd <= rowBegin) return undefined;
    const fromLeft = (rowBegin - left.rowBegin) * this.columns;
    const fromRight = (rowBegin - right.rowBegin) * this.columns;
    const length = Math.min((rowEnd - rowBegin) * this.columns, left.numbers.length - fromLeft, right.numbers.length - fromRight);
    const isWide = left.numbers instanceof Float64Array || right.numbers instanceof Float64Array;
    const numbers = isWide ? new Float64Array(length) : new Float32Array(length);
    for (let i = 0; i < length; i++) {
      const [a, b] = [left.numbers[fromLeft + i]!, right.numbers[fromRight + i]!];
      // Equal infinities, and NaN on both sides, are unchanged.
      numbers[i] = a === b || (Number.isNaN(a) && Number.isNaN(b)) ? 0 : a - b;
    }
    return { rowBegin, rowEnd, numbers };
  }
}

/** Maps the progress of reading one side to the progress of reading both. */
function share(context: Context, doneRows: number, ownRows: number, which: 0 | 1, allRows: number): Context["onStep"] {
  return ({ loadedBytes, totalBytes }) => {
    const rows = doneRows + ownRows * (which + loadedBytes / Math.max(1, totalBytes));
    context.onStep({ loadedBytes: rows, totalBytes: allRows });
  };
}
