/** A tensor as a matrix whose rows are read on demand. */

import type { Model, TensorInfo } from "zstn";
import type { MatrixReader, FloatBits, RowBlock } from "./matrix-reader.js";
import { floatBits, toNumbers } from "./to-numbers.js";
import { matrixShape } from "./shape.js";
import type { Context } from "./context.js";

/** The longest tensor that is read whole, in bytes. */
const SMALL_BYTES = 8 << 20;
/** The longest one that is read whole if it cannot be read in parts but is stored in as few bytes as a small one. */
const UNPACKED_BYTES = 128 << 20;
/** Size of a chunk of rows, in elements, approximately. */
const CHUNK_ELEMENTS = 1 << 19;
/** How many chunks are read at once. */
const RUN_CHUNKS = 8;
/** How many elements are cached. */
const HELD_ELEMENTS = 48 << 20;
/** The maximum number of strips in a sample, and their approximate total length in bytes. */
const SAMPLE_STRIPS = 24;
const SAMPLE_BYTES = 4 << 20;
const STRIP_BYTES = 64 << 10;

type Numbers = ArrayLike<number> & { subarray(begin: number, end: number): ArrayLike<number> };

export class Matrix implements MatrixReader {
  readonly rows: number;
  readonly columns: number;
  readonly count: number;
  readonly bits: FloatBits | undefined;
  isSmall: boolean;
  sample: readonly (readonly [number, number])[];
  readonly #model: Model;
  readonly #info: TensorInfo;
  /** Elements in one step of the outermost dimension, the smallest unit that can be read. */
  readonly #stride: number;
  /** Matrix rows in one such step. */
  readonly #unitRows: number;
  readonly #chunkRows: number;
  readonly #chunks = new Map<number, RowBlock>();
  readonly #strips: RowBlock[] = [];
  /** Whether reading a few rows fetches the whole tensor; unknown before the first plan. */
  #indivisible: boolean | undefined;

  constructor(model: Model, info: TensorInfo) {
    this.#model = model;
    this.#info = info;
    const complex = info.dtype === "C64" ? 2 : 1;
    const packed = /^F[46](_|$)/.test(info.dtype);
    const shape = packed ? [info.byteLength] : complex === 2 ? [...info.shape, 2] : info.shape;
    ({ rows: this.rows, columns: this.columns } = matrixShape(shape));
    this.count = shape.reduce((product, size) => product * size, 1);
    const outermost = packed || info.shape.length === 0 ? 1 : info.shape[0]!;
    this.#stride = outermost === 0 ? 0 : this.count / outermost;
    this.bits = floatBits(info.dtype);
    this.isSmall = info.byteLength <= SMALL_BYTES;
    this.#unitRows = Math.max(1, Math.floor(this.#stride / Math.max(1, this.columns)));
    this.#chunkRows = Math.max(1, Math.floor(CHUNK_ELEMENTS / Math.max(1, this.columns * this.#unitRows))) * this.#unitRows;
    this.sample = this.isSmall ? [[0, this.rows]] : this.#strata(0);
  }

  async prepare({ signal }: Context): Promise<void> {
    if (this.isSmall || this.#indivisible !== undefined) return;
    const plan = this.#info.shape.length === 0 ? undefined : await this.#model.plan(this.#info.name, { rows: [0, 1], signal });
    this.#indivisible = plan?.whole ?? true;
    if (plan && !plan.whole) {
      this.sample = this.#strata(plan.bytes);
      return;
    }
    const { storedLength, byteLength } = this.#info;
    this.isSmall = storedLength <= SMALL_BYTES && byteLength <= UNPACKED_BYTES;
    this.sample = this.isSmall ? [[0, this.rows]] : [];
  }

  async readRows(rowBegin: number, rowEnd: number, context: Context, use: (block: RowBlock) => void, keep?: "sample"): Promise<void> {
    if (keep === "sample" && !this.isSmall) return this.#readStrip(rowBegin, rowEnd, context, use);
    const total = this.#bytesOf(rowEnd - rowBegin);
    let row = rowBegin;
    while (row < rowEnd) {
      context.signal.throwIfAborted();
      const first = Math.floor(row / this.#chunkRows);
      const chunk = this.#chunks.get(first) ?? (await this.#readRun(first, rowEnd, this.#bytesOf(row - rowBegin), total, context));
      const end = Math.min(rowEnd, chunk.rowEnd);
      use(this.#cut(chunk, row, end));
      row = end;
      context.onStep({ loadedBytes: this.#bytesOf(row - rowBegin), totalBytes: total });
      if (rowEnd - rowBegin > this.#chunkRows) await turn();
    }
  }

  cached(row: number): RowBlock | undefined {
    const chunk = this.#chunks.get(Math.floor(row / this.#chunkRows));
    return chunk ?? this.#strips.find(({ rowBegin, rowEnd }) => rowBegin <= row && row < rowEnd);
  }

  /** Returns evenly spread strips, where a single row fetches `fetchedBytes`. None if one step of the outermost dimension already exceeds the budget of a sample. */
  #strata(fetchedBytes: number): [number, number][] {
    const unitRows = this.#unitRows;
    const unitBytes = (this.#info.byteLength / this.count) * this.columns * unitRows;
    const units = Math.ceil(this.rows / unitRows);
    // A strip of a packed tensor fetches all blocks that it overlaps.
    const affordable = unitBytes > SAMPLE_BYTES ? 0 : Math.max(1, Math.floor(SAMPLE_BYTES / Math.max(unitBytes, fetchedBytes)));
    const strips = Math.min(SAMPLE_STRIPS, units, affordable);
    const long = Math.max(1, Math.floor(STRIP_BYTES / unitBytes));
    return Array.from({ length: strips }, (_, i) => {
      const middle = ((i + 0.5) * units) / strips;
      const begin = Math.max(0, Math.min(units - long, Math.floor(middle - long / 2)));
      return [begin * unitRows, Math.min(this.rows, (begin + long) * unitRows)];
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

  /** Reads missing chunks from index `first` on, several at once, and returns the first of them. */
  async #readRun(first: number, rowEnd: number, doneBytes: number, totalBytes: number, { signal, onStep }: Context): Promise<RowBlock> {
    let last = first + 1;
    const chunkCount = Math.ceil(rowEnd / this.#chunkRows);
    const most = this.isSmall || this.#indivisible ? Number.POSITIVE_INFINITY : RUN_CHUNKS;
    while (last < chunkCount && last - first < most && !this.#chunks.has(last)) last += 1;
    const begin = first * this.#chunkRows;
    const end = Math.min(this.rows, last * this.#chunkRows);
    const own = this.#bytesOf(end - begin);
    const run = await this.#read(begin, end, {
      signal,
      onStep: (step) => onStep({ loadedBytes: Math.min(totalBytes, doneBytes + own * (step.loadedBytes / Math.max(1, step.totalBytes))), totalBytes }),
    });
    for (let i = first; i < last; i++) {
      this.#chunks.set(i, this.#cut(run, i * this.#chunkRows, Math.min(end, (i + 1) * this.#chunkRows)));
    }
    this.#forget(first, last);
    return this.#chunks.get(first)!;
  }

  async #read(rowBegin: number, rowEnd: number, { signal, onStep }: Context): Promise<RowBlock> {
    const { name, shape } = this.#info;
    const firstElement = rowBegin * this.columns;
    const endElement = Math.min(rowEnd * this.columns, this.count);
    const begin = Math.floor(firstElement / this.#stride);
    const end = Math.ceil(endElement / this.#stride);
    const all = shape.length === 0 || (begin === 0 && end === shape[0]);
    const tensor = await this.#model.tensor(name, { signal, onProgress: onStep, ...(!all && this.#stride < this.count && { rows: [begin, end] as const }) });
    const numbers = toNumbers(tensor) as Numbers;
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

/** Yields to the event loop, so that an abort is received, without the 4 ms of nested timeouts. */
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
