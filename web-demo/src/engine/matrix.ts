/** A tensor as a matrix whose rows are read on demand. */

import type { TensorInfo } from "zstn";
import type { MatrixReader, FloatBits, RowBlock } from "./matrix-reader.js";
import type { StoredFigures } from "./bands.js";
import { floatBits, isPacked } from "./to-numbers.js";
import { matrixShape } from "./shape.js";
import type { Numbers, TensorSource } from "./tensor-source.js";
import type { Context } from "./context.js";

/** The longest tensor that is read as a whole, in bytes. */
const SMALL_BYTES = 16 << 20;
/**
 * The longest decoded tensor that is read as a whole because it cannot be read in parts, in bytes. Its stored bytes
 * must not exceed the limit for a small tensor.
 */
const UNPACKED_BYTES = 128 << 20;
/** The approximate size of a chunk of rows, in elements. */
const CHUNK_ELEMENTS = 1 << 19;
/** The maximum number of chunks that are read at once. */
const RUN_CHUNKS = 8;
/** The maximum for packed tensors, which is higher because neighbouring runs both fetch the block at their boundary. */
const PACKED_RUN_CHUNKS = 32;
/** The maximum number of elements in the cache. */
const HELD_ELEMENTS = 48 << 20;
/** The maximum number of strips in a sample, and the maximum number of bytes fetched for it. */
const SAMPLE_STRIPS = 32;
const SAMPLE_BYTES = 6 << 20;
/**
 * The minimum length of a strip, in bytes. It is longer than the gaps that the package fetches to save a request, so
 * that a sample in memory is not fetched again.
 */
const STRIP_BYTES = 96 << 10;

/** The additional bytes that a strip may fetch to include more rows, as a fraction of its bytes. */
const WIDENING_SHARE = 0.15;

/** The limits on the bytes of a tensor that are read without a request of the user. */
export interface SampleBudget {
  /** The longest tensor that is read as a whole, in bytes. */
  readonly wholeBytes: number;
  readonly sampleBytes: number;
  readonly strips: number;
}

const DEFAULT_BUDGET: SampleBudget = { wholeBytes: SMALL_BYTES, sampleBytes: SAMPLE_BYTES, strips: SAMPLE_STRIPS };

export class Matrix implements MatrixReader {
  readonly rows: number;
  readonly columns: number;
  readonly count: number;
  readonly bits: FloatBits | undefined;
  readonly dtype: string;
  isSmall: boolean;
  sample: readonly (readonly [number, number])[];
  stored: StoredFigures | undefined;
  costBytes: number | undefined;
  readonly #source: TensorSource;
  readonly #info: TensorInfo;
  readonly #budget: SampleBudget;
  /** The number of elements in one slice of the outermost dimension, the smallest unit that can be read. */
  readonly #stride: number;
  /** The number of matrix rows in one such slice. */
  readonly #unitRows: number;
  readonly #chunkRows: number;
  readonly #chunks = new Map<number, RowBlock>();
  readonly #strips: RowBlock[] = [];
  /** The reads of chunks that are in flight. */
  readonly #running = new Map<number, Promise<RowBlock>>();
  /** True if the tensor is stored in blocks that contain many rows. */
  #isInBlocks = false;
  /** True if reading a few rows fetches the whole tensor; unknown before the first plan. */
  #indivisible: boolean | undefined;

  constructor(source: TensorSource, budget = DEFAULT_BUDGET) {
    const { info } = source;
    this.#budget = budget;
    this.#source = source;
    this.#info = info;
    const shape = info.dtype === "C64" ? [...info.shape, 2] : info.shape;
    ({ rows: this.rows, columns: this.columns } = matrixShape(shape));
    this.count = shape.reduce((product, size) => product * size, 1);
    const [first = 1] = info.shape;
    // Rows of packed elements may end within a byte. Then only the whole tensor can be read.
    const outermost = isPacked(info.dtype) && !Number.isInteger(info.byteLength / first) ? 1 : first;
    this.#stride = outermost === 0 ? 0 : this.count / outermost;
    this.bits = floatBits(info.dtype);
    this.dtype = info.dtype;
    this.isSmall = info.byteLength <= budget.wholeBytes;
    this.#unitRows = Math.max(1, Math.floor(this.#stride / Math.max(1, this.columns)));
    this.#chunkRows = Math.max(1, Math.floor(CHUNK_ELEMENTS / Math.max(1, this.columns * this.#unitRows))) * this.#unitRows;
    this.sample = this.isSmall ? [[0, this.rows]] : this.#strata(0);
  }

  async prepare({ signal }: Context): Promise<void> {
    const { whole = this.#info } = this.#source;
    // If a slice cannot be read alone, the whole tensor is read for it.
    if ((this.isSmall && whole === this.#info) || this.#indivisible !== undefined) return;
    this.stored = await this.#source.stored(this.columns, signal);
    const [units = 1] = this.#info.shape;
    const plan = this.#info.shape.length === 0 || this.#stride === this.count ? undefined : await this.#source.plan([0, 1], signal);
    // A slice across the blocks of its tensor takes more bytes than it has, and each of its rows may take nearly all of them.
    const all = plan && !plan.whole && whole !== this.#info ? await this.#source.plan([0, units], signal) : undefined;
    this.#indivisible = !plan || plan.whole || (all !== undefined && units > 2 && 2 * plan.bytes > all.bytes);
    if (whole !== this.#info) this.costBytes = all?.bytes ?? whole.storedLength;
    if (plan && !this.#indivisible) {
      if (this.isSmall && (this.costBytes ?? 0) <= this.#budget.wholeBytes) return;
      this.isSmall = false;
      this.sample = this.#strata(plan.bytes);
      // A packed tensor is fetched in whole blocks, which contain more rows than requested.
      const rowBytes = this.#bytesOf(this.#unitRows);
      this.#isInBlocks = plan.bytes > 2 * rowBytes;
      if (this.#isInBlocks) this.sample = await this.#widened(this.sample, signal);
      return;
    }
    const { storedLength, byteLength } = all ? { storedLength: all.bytes, byteLength: this.#info.byteLength } : whole;
    this.isSmall = storedLength <= this.#budget.wholeBytes && byteLength <= UNPACKED_BYTES;
    this.sample = this.isSmall ? [[0, this.rows]] : [];
  }

  async readRows(rowBegin: number, rowEnd: number, context: Context, use: (block: RowBlock) => void, keep?: "sample"): Promise<void> {
    if (keep === "sample" && !this.isSmall) return this.#readStrip(rowBegin, rowEnd, context, use);
    const total = this.#bytesOf(rowEnd - rowBegin);
    let row = rowBegin;
    while (row < rowEnd) {
      context.signal.throwIfAborted();
      const first = Math.floor(row / this.#chunkRows);
      // Another call may already be reading the chunk.
      if (!this.cached(row)) await this.#running.get(first)?.catch(() => {});
      const block = this.cached(row) ?? (await this.#readRun(first, rowEnd, this.#bytesOf(row - rowBegin), total, context));
      const end = Math.min(rowEnd, block.rowEnd);
      use(this.#cut(block, row, end));
      row = end;
      context.onStep({ loadedBytes: this.#bytesOf(row - rowBegin), totalBytes: total });
      if (rowEnd - rowBegin > this.#chunkRows) await turn();
    }
  }

  cached(row: number): RowBlock | undefined {
    const chunk = this.#chunks.get(Math.floor(row / this.#chunkRows));
    return chunk ?? this.#strips.find(({ rowBegin, rowEnd }) => rowBegin <= row && row < rowEnd);
  }

  /** Returns the first row of a range that is in memory; `end` if there is none. */
  nextCached(begin: number, end: number): number {
    if (begin >= end || this.cached(begin)) return Math.min(begin, end);
    let next = end;
    for (const { rowBegin } of this.#strips) if (rowBegin > begin) next = Math.min(next, rowBegin);
    for (const chunk of this.#chunks.keys()) if (chunk * this.#chunkRows > begin) next = Math.min(next, chunk * this.#chunkRows);
    return next;
  }

  /** Returns the rows in memory, as blocks that have no row in common. */
  held(): RowBlock[] {
    const blocks = [...this.#chunks.values()];
    for (const strip of this.#strips) {
      for (let row = strip.rowBegin; row < strip.rowEnd; ) {
        const chunk = Math.floor(row / this.#chunkRows);
        const end = Math.min(strip.rowEnd, (chunk + 1) * this.#chunkRows);
        if (!this.#chunks.has(chunk)) blocks.push(this.#cut(strip, row, end));
        row = end;
      }
    }
    return blocks;
  }

  /**
   * Returns evenly spread strips, including the first and the last rows; a single row fetches `fetchedBytes`. If one slice
   * of the outermost dimension exceeds the budget of a sample, but not that of a tensor that is read whole, it returns
   * this slice alone, and none if it exceeds both.
   */
  #strata(fetchedBytes: number): [number, number][] {
    const { sampleBytes, wholeBytes, strips: maxStrips } = this.#budget;
    const unitRows = this.#unitRows;
    const unitBytes = (this.#info.byteLength / this.count) * this.columns * unitRows;
    const units = Math.ceil(this.rows / unitRows);
    const long = fetchedBytes > 2 * unitBytes ? 1 : Math.max(1, Math.floor(Math.min(STRIP_BYTES, sampleBytes / maxStrips) / unitBytes));
    const affordable = Math.floor(sampleBytes / Math.max(unitBytes * long, fetchedBytes > 2 * unitBytes ? fetchedBytes * (1 + WIDENING_SHARE) : fetchedBytes));
    const isOneAffordable = fetchedBytes > 0 && fetchedBytes <= wholeBytes;
    const strips = Math.min(maxStrips, Math.ceil(units / long), affordable || Number(isOneAffordable));
    return Array.from({ length: strips }, (_, i) => {
      const begin = strips === 1 ? 0 : Math.round((i * (units - long)) / (strips - 1));
      return [begin * unitRows, Math.min(this.rows, (begin + long) * unitRows)];
    });
  }

  /**
   * Extends strips by the rows that are fetched with them at no or little additional cost. The cost has to be probed,
   * because the planes of a tensor have blocks of different lengths.
   */
  async #widened(strips: readonly (readonly [number, number])[], signal: AbortSignal): Promise<[number, number][]> {
    const [unitRows, units] = [this.#unitRows, Math.ceil(this.rows / this.#unitRows)];
    const cost = async (begin: number, end: number) => (await this.#source.plan([begin, end], signal)).bytes;
    const widened: [number, number][] = [];
    let spent = 0;
    // The first and the last strips are extended first, since the budget may be exhausted before all strips are included.
    for (const [first, last] of [...strips.slice(0, 1), ...strips.slice(1).reverse()]) {
      let [begin, end] = [first / unitRows, Math.ceil(last / unitRows)];
      const mostBytes = (await cost(begin, end)) * (1 + WIDENING_SHARE);
      for (let step = 2 ** Math.ceil(Math.log2(units)); step >= 1; step /= 2) {
        if (begin - step >= 0 && (await cost(begin - step, end)) <= mostBytes) begin -= step;
        if (end + step <= units && (await cost(begin, end + step)) <= mostBytes) end += step;
      }
      spent += await cost(begin, end);
      if (spent > this.#budget.sampleBytes) break;
      widened.push([begin * unitRows, Math.min(this.rows, end * unitRows)]);
    }
    widened.sort((a, b) => a[0] - b[0]);
    return widened.flatMap(([begin, end], i) => {
      const from = Math.max(begin, widened[i - 1]?.[1] ?? 0);
      return from < end ? [[from, end] as [number, number]] : [];
    });
  }

  async #readStrip(rowBegin: number, rowEnd: number, context: Context, use: (block: RowBlock) => void): Promise<void> {
    let strip = this.#strips.find((known) => known.rowBegin === rowBegin && known.rowEnd === rowEnd);
    if (!strip) {
      const chunk = this.#chunks.get(Math.floor(rowBegin / this.#chunkRows));
      strip = chunk && chunk.rowEnd >= rowEnd ? this.#cut(chunk, rowBegin, rowEnd) : await this.#read(rowBegin, rowEnd, context);
      this.#strips.push(strip);
    }
    use(strip);
  }

  /** Reads several missing chunks from index `first` on at once, and returns the first of them. */
  async #readRun(first: number, rowEnd: number, doneBytes: number, totalBytes: number, { signal, onStep }: Context): Promise<RowBlock> {
    let last = first + 1;
    const chunkCount = Math.ceil(rowEnd / this.#chunkRows);
    const most = this.isSmall || this.#indivisible ? Number.POSITIVE_INFINITY : this.#isInBlocks ? PACKED_RUN_CHUNKS : RUN_CHUNKS;
    while (last < chunkCount && last - first < most && !this.#chunks.has(last) && !this.#running.has(last)) last += 1;
    const begin = first * this.#chunkRows;
    const end = Math.min(this.rows, last * this.#chunkRows);
    const own = this.#bytesOf(end - begin);
    const reading = this.#readAround(begin, end, {
      signal,
      onStep: (step) => onStep({ loadedBytes: Math.min(totalBytes, doneBytes + own * (step.loadedBytes / Math.max(1, step.totalBytes))), totalBytes }),
    });
    for (let i = first; i < last; i++) this.#running.set(i, reading);
    const run = await reading.finally(() => {
      for (let i = first; i < last; i++) this.#running.delete(i);
    });
    for (let i = first; i < last; i++) {
      this.#chunks.set(i, this.#cut(run, i * this.#chunkRows, Math.min(end, (i + 1) * this.#chunkRows)));
    }
    this.#forget(first, last);
    return this.#chunks.get(first)!;
  }

  /** Reads rows, except the rows of the sample, which are already in memory. */
  async #readAround(rowBegin: number, rowEnd: number, { signal, onStep }: Context): Promise<RowBlock> {
    const overlapping = this.#strips.filter((strip) => strip.rowEnd > rowBegin && strip.rowBegin < rowEnd);
    const known = overlapping.map((strip) => this.#cut(strip, Math.max(rowBegin, strip.rowBegin), Math.min(rowEnd, strip.rowEnd))).sort((a, b) => a.rowBegin - b.rowBegin);
    if (known.length === 0 || this.#indivisible || this.#isInBlocks) return this.#read(rowBegin, rowEnd, { signal, onStep });
    const gaps = [...known, undefined].map((strip, i) => [known[i - 1]?.rowEnd ?? rowBegin, strip?.rowBegin ?? rowEnd] as const).filter(([begin, end]) => begin < end);
    const missing = gaps.reduce((sum, [begin, end]) => sum + end - begin, 0);
    const shares = gaps.map(() => 0);
    const parts = await abortTogether(signal, (signal) =>
      gaps.map(([begin, end], i) =>
        this.#read(begin, end, {
          signal,
          onStep: ({ loadedBytes, totalBytes }) => {
            shares[i] = (loadedBytes / Math.max(1, totalBytes)) * (end - begin);
            onStep({ loadedBytes: shares.reduce((sum, share) => sum + share, 0), totalBytes: missing });
          },
        }),
      ),
    );
    const numbers = new (known[0]!.numbers.constructor as new (length: number) => Numbers)((rowEnd - rowBegin) * this.columns);
    for (const part of [...known, ...parts]) numbers.set(part.numbers, (part.rowBegin - rowBegin) * this.columns);
    return { rowBegin, rowEnd, numbers };
  }

  async #read(rowBegin: number, rowEnd: number, { signal, onStep }: Context): Promise<RowBlock> {
    const { shape } = this.#info;
    const firstElement = rowBegin * this.columns;
    const endElement = Math.min(rowEnd * this.columns, this.count);
    const begin = Math.floor(firstElement / this.#stride);
    const end = Math.ceil(endElement / this.#stride);
    const all = shape.length === 0 || (begin === 0 && end === shape[0]);
    const numbers = await this.#source.read(!all && this.#stride < this.count ? [begin, end] : undefined, { signal, onStep });
    const skipped = begin * this.#stride;
    return { rowBegin, rowEnd, numbers: numbers.length === endElement - firstElement ? numbers : numbers.subarray(firstElement - skipped, endElement - skipped) };
  }

  #cut(block: RowBlock, rowBegin: number, rowEnd: number): RowBlock {
    if (block.rowBegin === rowBegin && block.rowEnd === rowEnd) return block;
    const offset = (rowBegin - block.rowBegin) * this.columns;
    const end = Math.min((rowEnd - block.rowBegin) * this.columns, block.numbers.length);
    return { rowBegin, rowEnd, numbers: (block.numbers as Numbers).subarray(offset, end) };
  }

  /** Evicts the oldest chunks, except `first` to `last`. */
  #forget(first: number, last: number): void {
    const most = Math.max(1, Math.floor(HELD_ELEMENTS / (this.#chunkRows * this.columns)));
    for (const key of this.#chunks.keys()) {
      if (this.#chunks.size <= most) return;
      if (key < first || key >= last) this.#chunks.delete(key);
    }
  }

  #bytesOf(rows: number): number {
    return Math.round((rows / Math.max(1, this.rows)) * this.#info.byteLength);
  }
}

/** Runs reads concurrently. When one fails, the others are aborted. */
async function abortTogether<T>(signal: AbortSignal, start: (signal: AbortSignal) => Promise<T>[]): Promise<T[]> {
  const own = new AbortController();
  try {
    return await Promise.all(start(AbortSignal.any([signal, own.signal])));
  } catch (error) {
    own.abort(error);
    throw error;
  }
}

/** Yields to the event loop, so that an abort can be received, without the 4 ms delay of nested timeouts. */
function turn(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(undefined);
  });
}
