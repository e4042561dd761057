/** Measuring how much tensors of the two open models differ, in a sample of their rows or in all of them. */

import type { Model, TensorInfo } from "zstn";
import type { ChangesRequest, ChangesResult, TensorChange } from "./tensor-change.js";
import type { Context } from "./context.js";
import { toNumbers } from "./to-numbers.js";

/** The number of places in a tensor that a sample takes rows from. */
const STRIPS = 4;
/** The maximum cost of one strip of a packed tensor, in bytes; a longer one is left out of a sample. */
const MAX_STRIP_COST = 1 << 20;
/** A tensor that unpacks to more than this is not read whole for a sample, however short it is stored. */
const MAX_UNPACKED_BYTES = 64 << 20;
/** How many elements of each side are compared in one step. */
const STEP_ELEMENTS = 2 << 20;

interface Pair {
  readonly name: string;
  readonly sides: readonly [Side, Side];
}

interface Side {
  readonly model: Model;
  readonly info: TensorInfo;
}

type RowRange = readonly [begin: number, end: number];

/** Compares tensors of `first` with those of `second`. */
export async function changes(first: Model, second: Model, { tensors, sampleBytes }: ChangesRequest, context: Context): Promise<ChangesResult> {
  const fetched = (): number => first.stats.bytesFetched + second.stats.bytesFetched;
  const startBytes = fetched();
  let done = 0;
  const compare = async (name: string): Promise<TensorChange> => {
    const pair: Pair = { name, sides: [sideOf(first, name), sideOf(second, name)] };
    const result = sampleBytes === undefined ? await compareWhole(pair, context) : await compareSample(pair, sampleBytes, context);
    context.onStep({ loadedBytes: ++done, totalBytes: tensors.length });
    return result;
  };
  // Together, so that adjacent reads share requests. The caller asks for no more whole tensors than fit into memory.
  const results = await Promise.all(tensors.map(compare));
  return { changes: results, fetchedBytes: fetched() - startBytes };
}

function sideOf(model: Model, name: string): Side {
  const info = model.tensors.get(name);
  if (!info) throw new Error(`One of the models has no tensor named ${name}.`);
  return { model, info };
}

/** Compares all rows: in steps, unless a step would fetch and decode the whole tensor. */
async function compareWhole(pair: Pair, context: Context): Promise<TensorChange> {
  const steps = stepsOf(pair);
  const [first] = steps;
  if (steps.length > 1 && first) {
    const plans = await Promise.all(pair.sides.map(({ model, info }) => model.plan(info.name, { rows: first, signal: context.signal })));
    if (plans.some(({ whole }) => whole)) return compareRows(pair, [[0, pair.sides[0].info.shape[0] ?? 1]], context);
  }
  return compareRows(pair, steps, context);
}

/** Returns ranges that cover all rows, in steps that fit into memory. */
function stepsOf({ sides: [{ info }] }: Pair): RowRange[] {
  const rows = info.shape[0] ?? 1;
  const step = Math.max(1, Math.floor((STEP_ELEMENTS * rows) / Math.max(1, valuesIn(info))));
  return Array.from({ length: Math.ceil(rows / step) }, (_, i) => [i * step, Math.min(rows, (i + 1) * step)]);
}

async function compareSample(pair: Pair, sampleBytes: number, context: Context): Promise<TensorChange> {
  const { sides } = pair;
  const byteLength = Math.max(...sides.map(({ info }) => info.byteLength));
  const storedLength = sides[0].info.storedLength + sides[1].info.storedLength;
  if (byteLength <= sampleBytes || (storedLength <= sampleBytes && byteLength <= MAX_UNPACKED_BYTES)) return compareWhole(pair, context);
  const rows = sides[0].info.shape[0] ?? 1;
  const rowBytes = byteLength / rows;
  const leftOut = { ...nothingOf(pair), wholeBytes: storedLength };
  if (rows < 2 || rowBytes > 4 * sampleBytes) return leftOut;
  const stripRows = Math.max(1, Math.floor(sampleBytes / STRIPS / rowBytes));
  const affordable = Math.max(1, Math.min(STRIPS, Math.floor(sampleBytes / (stripRows * rowBytes))));
  const plans = await Promise.all(sides.map(({ model, info }) => model.plan(info.name, { rows: middle(rows, stripRows, 0, 1), signal: context.signal })));
  if (plans.some(({ whole, bytes }) => bytes > (whole ? sampleBytes : MAX_STRIP_COST))) return leftOut;
  // A packed tensor fetches all blocks that a strip overlaps. One strip is then what the others would cost together.
  const strips = plans.some(({ bytes }) => bytes > sampleBytes) ? 1 : affordable;
  return compareRows(pair, Array.from({ length: strips }, (_, i) => middle(rows, stripRows, i, strips)), context);
}

/** Returns rows in the middle of part `i` of `parts` equal parts. */
function middle(rows: number, length: number, i: number, parts: number): RowRange {
  const begin = Math.max(0, Math.min(rows - length, Math.round(((i + 0.5) * rows) / parts - length / 2)));
  return [begin, begin + Math.min(length, rows)];
}

async function compareRows(pair: Pair, ranges: readonly RowRange[], context: Context): Promise<TensorChange> {
  const { sides } = pair;
  const sum = { compared: 0, changed: 0, squares: 0, baseSquares: 0 };
  const rows = sides[0].info.shape[0] ?? 1;
  const isWhole = ranges.length === 1 && ranges[0]![0] === 0 && ranges[0]![1] === rows;
  // All ranges of a sample at once; the steps of a whole tensor one after the other.
  const isSample = ranges.reduce((total, [begin, end]) => total + end - begin, 0) < rows;
  const one = async (range: RowRange) => {
    context.signal.throwIfAborted();
    const [left, right] = await Promise.all(sides.map((side) => read(side, isWhole ? undefined : range, context.signal)));
    add(sum, left!, right!);
  };
  if (isSample) await Promise.all(ranges.map(one));
  else for (const range of ranges) await one(range);
  return { ...nothingOf(pair), ...sum, exact: !isSample };
}

async function read({ model, info }: Side, rows: RowRange | undefined, signal: AbortSignal): Promise<ArrayLike<number>> {
  const whole = rows === undefined || info.shape.length === 0;
  return toNumbers(await model.tensor(info.name, whole ? { signal } : { rows, signal }));
}

function add(sum: { compared: number; changed: number; squares: number; baseSquares: number }, left: ArrayLike<number>, right: ArrayLike<number>): void {
  const length = Math.min(left.length, right.length);
  let [changed, squares, baseSquares] = [0, 0, 0];
  for (let i = 0; i < length; i++) {
    const [a, b] = [left[i]!, right[i]!];
    if (a !== b && !(Number.isNaN(a) && Number.isNaN(b))) changed += 1;
    const square = (a - b) ** 2;
    // Infinities and NaN have no difference; they count as changed or not.
    if (!Number.isFinite(square)) continue;
    squares += square;
    baseSquares += b * b;
  }
  sum.compared += length;
  sum.changed += changed;
  sum.squares += squares;
  sum.baseSquares += baseSquares;
}

function nothingOf({ name, sides: [first, second] }: Pair): TensorChange {
  const numeric = ![first, second].some(({ info }) => /^F[46](_|$)/.test(info.dtype) || info.dtype === "BOOL");
  return { name, exact: false, compared: 0, changed: 0, squares: 0, baseSquares: 0, numeric };
}

const valuesIn = ({ shape }: TensorInfo): number => shape.reduce((product, size) => product * size, 1);
