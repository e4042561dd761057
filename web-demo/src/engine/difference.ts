/** One matrix minus another of the same shape. */

import type { Cells, Compared, Piece } from "./cells.js";
import type { Context } from "./worker.js";

/** Elements of either side that are looked at in one step. */
const STEP_ELEMENTS = 4 << 20;

export class Difference implements Cells {
  readonly rows: number;
  readonly columns: number;
  readonly count: number;
  readonly bits = undefined;
  readonly #left: Cells;
  readonly #right: Cells;
  /** Differences of pieces that were asked for lately, by the left piece. */
  readonly #held = new WeakMap<Piece, Piece>();

  constructor(left: Cells, right: Cells) {
    if (left.rows !== right.rows || left.columns !== right.columns || left.count !== right.count) {
      throw new Error("Tensors of different shapes have no difference; look at them side by side.");
    }
    this.rows = left.rows;
    this.columns = left.columns;
    this.count = left.count;
    this.#left = left;
    this.#right = right;
  }

  /** The same rows of both. */
  get sample(): readonly (readonly [number, number])[] {
    return this.#right.sample.length > 0 ? this.#left.sample : [];
  }

  get isSmall(): boolean {
    return this.#left.isSmall && this.#right.isSmall;
  }

  async prepare(context: Context): Promise<void> {
    await Promise.all([this.#left.prepare(context), this.#right.prepare(context)]);
  }

  async visit(rowBegin: number, rowEnd: number, context: Context, use: (piece: Piece) => void, keep?: "sample"): Promise<void> {
    // Step by step, so that neither side has to be in memory whole.
    const step = keep ? rowEnd - rowBegin : Math.max(1, Math.ceil(STEP_ELEMENTS / Math.max(1, this.columns)));
    for (let row = rowBegin; row < rowEnd; row += step) {
      const end = Math.min(rowEnd, row + step);
      const steps = (which: 0 | 1) => ({ signal: context.signal, onStep: share(context, row - rowBegin, (end - row) / 2, which, rowEnd - rowBegin) });
      const lefts: Piece[] = [];
      const rights: Piece[] = [];
      await this.#left.visit(row, end, steps(0), (piece) => lefts.push(piece), keep);
      await this.#right.visit(row, end, steps(1), (piece) => rights.push(piece), keep);
      for (const left of lefts) for (const right of rights) {
        const piece = this.#subtract(left, right);
        if (piece) use(piece);
      }
    }
  }

  held(row: number): Piece | undefined {
    const left = this.#left.held(row);
    const right = this.#right.held(row);
    if (!left || !right) return undefined;
    const known = this.#held.get(left);
    if (known && known.rowBegin <= row && row < known.rowEnd) return known;
    const piece = this.#subtract(left, right);
    if (piece) this.#held.set(left, piece);
    return piece;
  }

  /** How a piece of the difference came about: values that differ, and the squares of what was subtracted. */
  compare(piece: Piece): Compared {
    let changed = 0;
    let squares = 0;
    for (let i = 0; i < piece.numbers.length; i++) if (piece.numbers[i] !== 0) changed += 1;
    for (let row = piece.rowBegin; row < piece.rowEnd; ) {
      const right = this.#right.held(row);
      if (!right) break;
      const end = Math.min(right.rowEnd, piece.rowEnd);
      const stop = Math.min((end - right.rowBegin) * this.columns, right.numbers.length);
      for (let i = (row - right.rowBegin) * this.columns; i < stop; i++) squares += right.numbers[i]! ** 2;
      row = end;
    }
    return { changed, squares };
  }

  /** Over the rows that both have. */
  #subtract(left: Piece, right: Piece): Piece | undefined {
    const rowBegin = Math.max(left.rowBegin, right.rowBegin);
    const rowEnd = Math.min(left.rowEnd, right.rowEnd);
    if (rowEnd <= rowBegin) return undefined;
    const fromLeft = (rowBegin - left.rowBegin) * this.columns;
    const fromRight = (rowBegin - right.rowBegin) * this.columns;
    const length = Math.min((rowEnd - rowBegin) * this.columns, left.numbers.length - fromLeft, right.numbers.length - fromRight);
    const numbers = new Float32Array(length);
    for (let i = 0; i < length; i++) {
      const [a, b] = [left.numbers[fromLeft + i]!, right.numbers[fromRight + i]!];
      numbers[i] = a === b ? 0 : a - b; // infinities that are equal differ by nothing
    }
    return { rowBegin, rowEnd, numbers };
  }
}

/** The part of one side in the way of both through all rows. */
function share(context: Context, doneRows: number, ownRows: number, which: 0 | 1, allRows: number): Context["onStep"] {
  return ({ loadedBytes, totalBytes }) => {
    const rows = doneRows + ownRows * (which + loadedBytes / Math.max(1, totalBytes));
    context.onStep({ loadedBytes: rows, totalBytes: allRows });
  };
}
