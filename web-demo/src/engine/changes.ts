/** Measures how much the tensors of the two open models differ, in a sample of their rows or in all of them. */

import type { Model, TensorInfo } from "zstn";
import type { ChangesRequest, ChangesResult, ChangeSums, TensorChange } from "./tensor-change.js";
import type { Context } from "./context.js";
import { isPacked, toBits, toNumbers, wordsPerValue } from "./to-numbers.js";

/** The maximum number of strips, which are ranges of rows, in a sample of a tensor. */
const MAX_STRIPS = 8;
/** The minimum number of row groups for the margin of an estimate, if the tensor has enough rows. */
const MIN_GROUPS = 8;
/** A sample never reads a whole tensor that is longer than this when decoded, however short its stored bytes are. */
const MAX_UNPACKED_BYTES = 64 << 20;
/** The number of elements of each side that are compared in one step. */
const STEP_ELEMENTS = 2 << 20;
/** The minimum gap between strips, in bytes. The package would fetch shorter gaps to save a request. */
const MIN_GAP_BYTES = 96 << 10;
/** The additional bytes that a strip may fetch to include more rows, as a fraction of its bytes. */
const WIDENING_SHARE = 0.15;

interface Side {
  readonly model: Model;
  readonly info: TensorInfo;
}

type RowRange = readonly [begin: number, end: number];

/** Compares the tensors of two models. Remembers the rows that have been compared, so that no row is read twice. */
export class ChangeComparison {
  readonly #models: readonly [Model, Model];
  readonly #tensors = new Map<string, ComparedTensor>();

  constructor(first: Model, second: Model) {
    this.#models = [first, second];
  }

  /** Returns whether this comparison is of these models. */
  isOf(first: Model, second: Model): boolean {
    return this.#models[0] === first && this.#models[1] === second;
  }

  async compare({ tensors, maxBytes }: ChangesRequest, context: Context): Promise<ChangesResult> {
    const fetched = (): number => this.#models.reduce((sum, { stats }) => sum + stats.bytesFetched, 0);
    const startBytes = fetched();
    let done = 0;
    const one = async (name: string): Promise<TensorChange> => {
      const tensor = this.#tensor(name);
      if (maxBytes === undefined) await tensor.readRest(context);
      else await tensor.sample(maxBytes, context);
      context.onStep({ loadedBytes: ++done, totalBytes: tensors.length });
      return tensor.change(context);
    };
    // The tensors are compared concurrently, so that adjacent reads share requests. The caller only requests whole
    // tensors that fit into memory together.
    const changes = await Promise.all(tensors.map(one));
    return { changes, fetchedBytes: fetched() - startBytes };
  }

  #tensor(name: string): ComparedTensor {
    let tensor = this.#tensors.get(name);
    if (!tensor) {
      const sides = this.#models.map((model) => {
        const info = model.tensors.get(name);
        if (!info) throw new Error(`One of the models has no tensor named ${name}.`);
        return { model, info };
      });
      this.#tensors.set(name, (tensor = new ComparedTensor(name, sides as [Side, Side])));
    }
    return tensor;
  }
}

class ComparedTensor {
  readonly #name: string;
  readonly #sides: readonly [Side, Side];
  readonly #rows: number;
  /** True if shape and dtype allow reading single rows. */
  readonly #hasRows: boolean;
  /** The ranges of rows that have been compared, sorted. */
  #done: RowRange[] = [];
  readonly #groups: Sums[] = [];
  #neededBytes: number | undefined;

  constructor(name: string, sides: readonly [Side, Side]) {
    this.#name = name;
    this.#sides = sides;
    this.#rows = sides[0].info.shape[0] ?? 1;
    const [{ info }] = sides;
    this.#hasRows = this.#rows > 1 && sides.every(({ info }) => !isPacked(info.dtype) || Number.isInteger(info.byteLength / this.#rows)) && info.shape.length > 0;
  }

  get #isWhole(): boolean {
    return this.#left.length === 0;
  }

  async change({ signal }: Context): Promise<TensorChange> {
    const sums = new Sums();
    for (const group of this.#groups) sums.add(group);
    const exact = this.#isWhole;
    const groups = this.#groups.map(({ compared, changed, squares, baseSquares }) => ({ compared, changed, squares, baseSquares }));
    const { compared, changed, squares, baseSquares, gained, lost } = sums;
    return {
      name: this.#name, compared, changed, squares, baseSquares, gained, lost, exact,
      numeric: this.#sides.every(({ info }) => info.dtype !== "BOOL"),
      groups: exact ? [] : groups,
      leftBytes: exact ? 0 : await this.#costOf(this.#left, signal),
      ...(compared === 0 && !exact && this.#neededBytes !== undefined && { neededBytes: this.#neededBytes }),
    };
  }

  /** Compares the remaining rows: in steps, unless each step would fetch and decode the whole tensor. */
  async readRest(context: Context): Promise<void> {
    if (this.#isWhole) return;
    const first = this.#left[0]!;
    const step = Math.max(1, Math.floor((STEP_ELEMENTS * this.#rows) / Math.max(1, valuesIn(this.#sides[0].info))));
    const isDivisible = this.#hasRows && step < this.#rows && !(await this.#plans([first[0], Math.min(first[1], first[0] + step)], context.signal)).some(({ whole }) => whole);
    if (!isDivisible && this.#done.length === 0) return this.#compare([0, this.#rows], context);
    for (const [begin, end] of this.#left) {
      for (let row = begin; row < end; row += step) await this.#compare([row, Math.min(end, row + step)], context);
    }
  }

  /** Compares a sample of rows that fetches at most `maxBytes` from both models; nothing if no rows are that short. */
  async sample(maxBytes: number, context: Context): Promise<void> {
    if (this.#done.length > 0) return;
    const byteLength = Math.max(...this.#sides.map(({ info }) => info.byteLength));
    const wholeBytes = this.#sides.reduce((sum, { info }) => sum + info.storedLength, 0);
    if (wholeBytes <= maxBytes && byteLength <= MAX_UNPACKED_BYTES) return this.readRest(context);
    const row = this.#hasRows ? await this.#costOfRows(middle(this.#rows, 1, 0, 1), context.signal) : undefined;
    if (row === undefined || row >= wholeBytes) return void (this.#neededBytes = wholeBytes);
    const rowBytes = this.#sides.reduce((sum, { info }) => sum + info.byteLength / this.#rows, 0);
    // Reading a row of a packed tensor fetches whole blocks, which contain more rows.
    const strips = row > 2 * rowBytes ? await this.#blocks(row, maxBytes, context.signal) : this.#evenStrips(row, maxBytes);
    if (strips.length === 0) return void (this.#neededBytes = row * (1 + WIDENING_SHARE));
    await Promise.all(strips.map((range) => this.#compare(range, context, Math.ceil(MIN_GROUPS / strips.length))));
  }

  /** Returns evenly spread strips of equal length, if one row fetches `rowCost` bytes. */
  #evenStrips(rowCost: number, maxBytes: number): RowRange[] {
    // Shorter gaps would be fetched to save requests, and fetched again when the rest is compared.
    const gapBytes = Math.max(0, this.#rows * rowCost - maxBytes) / this.#sides.length;
    const count = Math.min(MAX_STRIPS, Math.floor(maxBytes / rowCost), this.#rows, 1 + Math.floor(gapBytes / MIN_GAP_BYTES));
    const rows = Math.max(1, Math.floor(maxBytes / Math.max(1, count) / rowCost));
    const strips: RowRange[] = [];
    for (let i = 0; i < count; i++) {
      const [begin, end] = middle(this.#rows, rows, i, count);
      strips.push([Math.max(begin, strips.at(-1)?.[1] ?? 0), end]);
    }
    return strips;
  }

  /**
   * Returns evenly spread strips. Each strip consists of the rows that are fetched together with one row, at a cost of
   * about `rowCost` bytes.
   */
  async #blocks(rowCost: number, maxBytes: number, signal: AbortSignal): Promise<RowRange[]> {
    const count = Math.min(MAX_STRIPS, Math.floor(maxBytes / (rowCost * (1 + WIDENING_SHARE)) + 1e-6));
    const strips: RowRange[] = [];
    for (let i = 0; i < count; i++) {
      const [begin, end] = await this.#widened(middle(this.#rows, 1, i, count), signal);
      const from = Math.max(begin, strips.at(-1)?.[1] ?? 0);
      if (from < end) strips.push([from, end]);
    }
    return strips;
  }

  /** Extends a strip by the rows that are fetched with it at no or little additional cost. */
  async #widened([first, last]: RowRange, signal: AbortSignal): Promise<RowRange> {
    let [begin, end] = [first, last];
    const mostBytes = ((await this.#costOfRows([begin, end], signal)) ?? 0) * (1 + WIDENING_SHARE);
    const fits = async (from: number, to: number): Promise<boolean> => {
      const bytes = await this.#costOfRows([from, to], signal);
      return bytes !== undefined && bytes <= mostBytes;
    };
    for (let step = 2 ** Math.ceil(Math.log2(this.#rows)); step >= 1; step /= 2) {
      if (begin - step >= 0 && (await fits(begin - step, end))) begin -= step;
      if (end + step <= this.#rows && (await fits(begin, end + step))) end += step;
    }
    return [begin, end];
  }

  /** Returns the number of bytes that reading `rows` fetches from both models; `undefined` if that is a whole tensor. */
  async #costOfRows(rows: RowRange, signal: AbortSignal): Promise<number | undefined> {
    const plans = await this.#plans(rows, signal);
    return plans.some(({ whole }) => whole) ? undefined : plans.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  #plans(rows: RowRange, signal: AbortSignal): Promise<{ whole: boolean; bytes: number }[]> {
    return Promise.all(this.#sides.map(({ model, info }) => model.plan(info.name, { rows, signal })));
  }

  /** The rows that have not been compared. */
  get #left(): RowRange[] {
    const ends = [0, ...this.#done.map(([, end]) => end)];
    const begins = [...this.#done.map(([begin]) => begin), this.#rows];
    return ends.flatMap((end, i) => (end < begins[i]! ? [[end, begins[i]!] as const] : []));
  }

  async #costOf(ranges: readonly RowRange[], signal: AbortSignal): Promise<number> {
    if (this.#done.length === 0) return this.#sides.reduce((sum, { info }) => sum + info.storedLength, 0);
    const plans = (await Promise.all(ranges.map((range) => this.#plans(range, signal)))).flat();
    return plans.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Compares rows, divided into at most `groups` groups, and adds the sums of each group. */
  async #compare(range: RowRange, { signal }: Context, groups = 1): Promise<void> {
    signal.throwIfAborted();
    const isAll = range[0] === 0 && range[1] === this.#rows;
    const read = async ({ model, info }: Side) => model.tensor(info.name, isAll ? { signal } : { rows: range, signal });
    const [left, right] = await Promise.all([read(this.#sides[0]), read(this.#sides[1])]);
    const values = [toNumbers(left), toNumbers(right)] as const;
    const bits = left.dtype === right.dtype ? ([toBits(left), toBits(right)] as const) : undefined;
    const [count, rows] = [Math.min(values[0].length, values[1].length), range[1] - range[0]];
    const own = Math.min(groups, Math.max(1, rows));
    for (let i = 0; i < own; i++) {
      const [begin, end] = [i, i + 1].map((part) => Math.floor((part * rows) / own) * (rows === 0 ? 0 : count / rows)) as [number, number];
      const sums = new Sums();
      sums.count(values, bits, wordsPerValue(left.dtype), begin, own === 1 ? count : end);
      this.#groups.push(sums);
    }
    this.#done = [...this.#done, range].sort((a, b) => a[0] - b[0]);
  }
}

class Sums implements ChangeSums {
  compared = 0;
  changed = 0;
  squares = 0;
  baseSquares = 0;
  gained = 0;
  lost = 0;

  add(other: Sums): void {
    for (const key of ["compared", "changed", "squares", "baseSquares", "gained", "lost"] as const) this[key] += other[key];
  }

  /**
   * Adds values `begin` to `end` of both sides. If `bits` are not comparable, values count as changed if they differ as
   * numbers.
   */
  count([left, right]: readonly [ArrayLike<number>, ArrayLike<number>], bits: readonly [ArrayLike<number>, ArrayLike<number>] | undefined, words: number, begin: number, end: number): void {
    let [changed, squares, baseSquares, gained, lost] = [0, 0, 0, 0, 0];
    for (let i = begin; i < end; i++) {
      const [a, b] = [left[i]!, right[i]!];
      const differs = bits ? bits[0][words * i] !== bits[1][words * i] || (words === 2 && bits[0][2 * i + 1] !== bits[1][2 * i + 1]) : a !== b && !(Number.isNaN(a) && Number.isNaN(b));
      if (differs) changed += 1;
      const [isA, isB] = [a - a === 0, b - b === 0];
      if (isA && isB) {
        squares += (a - b) ** 2;
        baseSquares += b * b;
      } else if (isB) gained += 1;
      else if (isA) lost += 1;
    }
    this.compared += end - begin;
    this.changed += changed;
    this.squares += squares;
    this.baseSquares += baseSquares;
    this.gained += gained;
    this.lost += lost;
  }
}

/** Returns `length` rows in the middle of part `i` of `parts` equal parts of the rows. */
function middle(rows: number, length: number, i: number, parts: number): RowRange {
  const begin = Math.max(0, Math.min(rows - length, Math.round(((i + 0.5) * rows) / parts - length / 2)));
  return [begin, begin + Math.min(length, rows)];
}

const valuesIn = ({ shape }: TensorInfo): number => shape.reduce((product, size) => product * size, 1);
