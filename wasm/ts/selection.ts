/** Parts of a tensor that are selected on any of its axes. This code is loaded by the first read of such a part. */

import { InvalidInputError, LimitError } from "./errors.js";
import { adjacentPart, type AxisSelection, type ByteSpan, type Part, type PartPlanner, type PartReader, type RowRange } from "./rows.js";
import type { TensorInfo } from "./tensor.js";

/** Runs with a gap of at most this many bytes are read together, because reading the gap is as cheap as another read. */
const MIN_GAP_BYTES = 64 << 10;

/** The number of bytes that are decoded together in a delta that is not stored in blocks, whose base may be. */
const BASE_BAND_BYTES = 512 << 10;

/** Runs are read together up to this many bytes, and up to the end of the band in which that length is reached. */
const SPAN_BYTES = 4 << 20;

/** A span of more bands than this may end within a band, which is then decoded twice. */
const SPAN_BANDS = 4;

/** The number of bytes, and of spans, that are read at the same time, apart from the result. A longer span is read alone. */
const WAVE_BYTES = 32 << 20;
const WAVE_SPANS = 64;

/** Returns the error for rows that a tensor does not have, or that do not begin and end on a byte. */
function rowsError({ name, shape: [count] }: TensorInfo, rows: RowRange): InvalidInputError {
  if (!Array.isArray(rows) || rows.length !== 2) return new InvalidInputError(`\`rows\` must be a pair [begin, end], not ${String(rows)}.`);
  if (count === undefined) return new InvalidInputError(`${name} is a scalar and has no rows.`);
  const why = rangeOf(Array.from(rows, (bound) => bound ?? Number.NaN), count) ? "do not begin and end on a byte" : "are out of range";
  return new InvalidInputError(`Rows ${rows[0]} to ${rows[1]} ${why}: ${name} has ${count} rows.`);
}

/**
 * Returns the part of a tensor that `select` describes. Throws an `InvalidInputError` if the tensor does not have these
 * axes or indices, and if the part does not consist of whole bytes; without `select`, the error for `rows`.
 */
export function selected(whole: TensorInfo, select: readonly AxisSelection[] | undefined, rows: RowRange | undefined): Part {
  if (select === undefined) throw rowsError(whole, rows!);
  const { name, shape, dtype, byteLength } = whole;
  const refuse = (problem: string) => new InvalidInputError(`${problem}: ${name} has the shape [${shape.join(", ")}].`);
  if (rows !== undefined) throw new InvalidInputError("Give either `rows` or `select`: `select: [rows]` selects the same rows.");
  if (!Array.isArray(select)) throw refuse(`\`select\` must be a list with an entry for each axis, not ${String(select)}`);
  if (select.length > shape.length) throw refuse(`\`select\` has ${select.length} entries, more than there are axes`);
  const ranges = shape.map((size, axis): ByteSpan => {
    const entry: unknown = axis < select.length ? select[axis] : null;
    const range = rangeOf(entry, size);
    if (!range) throw refuse(`\`select\` takes an index, [begin, end] or null for the ${size} indices of axis ${axis}, not ${textOf(entry)}`);
    return range;
  });
  const counts = ranges.map(([begin, end]) => end - begin);
  const kept = counts.filter((_, axis) => typeof select[axis] !== "number");
  const count = counts.reduce((product, size) => product * size, 1);
  if (count === 0 || byteLength === 0) return adjacentPart({ ...whole, shape: kept }, [0, 0]);
  // An element is a whole number of bits, so that the quotient is exact.
  const elementBits = (byteLength * 8) / shape.reduce((product, size) => product * size, 1);
  let [first, strideBits, runBits] = [0, elementBits, elementBits];
  const outer: Axis[] = [];
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    const count = counts[axis]!;
    first += ranges[axis]![0] * strideBits;
    // The indices of this axis are adjacent in the file if a run covers all axes inside it.
    if (outer.length === 0 && runBits === strideBits) runBits *= count;
    else if (count > 1) outer.push({ count, strideBytes: strideBits / 8 });
    strideBits *= shape[axis]!;
  }
  const runs = new Runs(first / 8, runBits / 8, outer);
  if (![first / 8, runBits / 8, ...outer.map(({ strideBytes }) => strideBytes)].every(Number.isInteger)) {
    throw refuse(`elements of ${dtype} are parts of bytes, and this part does not begin and end on a byte`);
  }
  if (outer.length === 0) return adjacentPart({ ...whole, shape: kept }, [first / 8, (first + runBits) / 8]);
  return {
    info: { ...whole, shape: kept, byteLength: runs.count * runs.lengthBytes, storedLength: 0 },
    async spans(reader) {
      const bandBytes = await bandBytesOf(whole, runs, reader);
      return bandBytes === undefined ? undefined : pairsOf(runs.spans(bandBytes));
    },
    read: (reader, into) => readRuns(whole, runs, reader, into),
  };
}

/** Returns the range of indices that an entry of `select` describes; `undefined` if the axis does not have them. */
function rangeOf(entry: unknown, size: number): ByteSpan | undefined {
  const pair: unknown = typeof entry === "number" ? [entry, entry + 1] : entry === null ? [0, size] : entry;
  if (!Array.isArray(pair) || pair.length !== 2) return undefined;
  const [begin, end] = [pair[0] ?? 0, pair[1] ?? size] as [number, number];
  return Number.isInteger(begin) && Number.isInteger(end) && begin >= 0 && begin <= end && end <= size ? [begin, end] : undefined;
}

function textOf(entry: unknown): string {
  return Array.isArray(entry) ? `[${entry.map((bound) => String(bound)).join(", ")}]` : String(entry);
}

function* pairsOf(spans: Iterable<RunSpan>): Generator<ByteSpan> {
  for (const { begin, end } of spans) yield [begin, end];
}

/** An axis on which the part is not adjacent in the file. */
interface Axis {
  /** The number of selected indices. */
  readonly count: number;
  /** The distance from one index to the next, in bytes of the tensor. */
  readonly strideBytes: number;
}

/** A range of the tensor's bytes, and the numbers of the runs in it. Both ends are exclusive. */
interface RunSpan {
  readonly begin: number;
  end: number;
  readonly firstRun: number;
  endRun: number;
}

/** The runs of adjacent bytes of a part, in the order of the tensor and of the result. */
class Runs {
  readonly count: number;
  readonly lengthBytes: number;
  readonly #first: number;
  readonly #axes: readonly Axis[];

  /** Creates the runs of `lengthBytes` bytes each, of which the first begins at byte `first`; `axes` are innermost first. */
  constructor(first: number, lengthBytes: number, axes: readonly Axis[]) {
    this.#first = first;
    this.#axes = axes;
    this.lengthBytes = lengthBytes;
    this.count = axes.reduce((product, { count }) => product * count, 1);
  }

  /** Returns the position of a run in the tensor, in bytes. */
  begin(run: number): number {
    let position = this.#first;
    for (const { count, strideBytes } of this.#axes) {
      position += (run % count) * strideBytes;
      run = Math.floor(run / count);
    }
    return position;
  }

  /** The position after the last run in the tensor, in bytes. */
  get end(): number {
    return this.begin(this.count - 1) + this.lengthBytes;
  }

  /**
   * Yields ranges that contain all runs. Runs are in one range if at most `bandBytes` separate them, since no whole band
   * is between them then.
   */
  *spans(bandBytes: number): Generator<RunSpan, void, undefined> {
    const maxGapBytes = Math.max(MIN_GAP_BYTES, bandBytes);
    const isFull = (span: RunSpan, begin: number, end: number) => {
      const lengthBytes = end - span.begin;
      if (lengthBytes <= SPAN_BYTES) return false;
      return lengthBytes > SPAN_BYTES + SPAN_BANDS * bandBytes || Math.floor((span.end - 1) / bandBytes) !== Math.floor(begin / bandBytes);
    };
    let span: RunSpan | undefined;
    for (let run = 0; run < this.count; run++) {
      const begin = this.begin(run);
      const end = begin + this.lengthBytes;
      if (span && (begin - span.end > maxGapBytes || isFull(span, begin, end))) {
        yield span;
        span = undefined;
      }
      span ??= { begin, end, firstRun: run, endRun: run };
      span.end = end;
      span.endRun = run + 1;
    }
    if (span) yield span;
  }

  /** Copies the runs of a span, whose bytes are given, to their places in `out`. */
  copy({ begin, firstRun, endRun }: RunSpan, bytes: Uint8Array, out: Uint8Array): void {
    const { lengthBytes } = this;
    for (let run = firstRun; run < endRun; run++) {
      const from = this.begin(run) - begin;
      const to = run * lengthBytes;
      // For short runs, creating a view takes longer than copying.
      if (lengthBytes > 32) out.set(bytes.subarray(from, from + lengthBytes), to);
      else for (let i = 0; i < lengthBytes; i++) out[to + i] = bytes[from + i]!;
    }
  }
}

/** Returns the number of bytes that are decoded together; `undefined` if the whole tensor has to be decoded. */
async function bandBytesOf({ base }: TensorInfo, runs: Runs, planner: PartPlanner): Promise<number | undefined> {
  const bandBytes = await planner.bandBytes(runs.begin(0));
  // In a delta, rows that the base does not have need the whole tensor. They are the last ones.
  if ((await planner.bandBytes(runs.end - 1)) === undefined) return undefined;
  return bandBytes === 0 && base ? BASE_BAND_BYTES : bandBytes;
}

/** Reads runs of a tensor, in waves of spans that are fetched concurrently. */
async function readRuns(whole: TensorInfo, runs: Runs, reader: PartReader, into: Uint8Array<ArrayBuffer> | undefined): Promise<Uint8Array<ArrayBuffer>> {
  const bandBytes = await bandBytesOf(whole, runs, reader);
  const out = into ?? allocate(runs.count * runs.lengthBytes, whole.name);
  if (bandBytes === undefined) {
    runs.copy({ begin: 0, end: whole.byteLength, firstRun: 0, endRun: runs.count }, await reader.read([0, whole.byteLength]), out);
    return out;
  }
  let wave: RunSpan[] = [];
  let waveBytes = 0;
  const finish = async () => {
    const read = await Promise.all(wave.map(({ begin, end }) => reader.read([begin, end])));
    for (const [i, span] of wave.entries()) runs.copy(span, read[i]!, out);
    [wave, waveBytes] = [[], 0];
  };
  for (const span of runs.spans(bandBytes)) {
    const lengthBytes = span.end - span.begin;
    if (wave.length > 0 && (wave.length === WAVE_SPANS || waveBytes + lengthBytes > WAVE_BYTES)) await finish();
    wave.push(span);
    waveBytes += lengthBytes;
  }
  await finish();
  return out;
}

function allocate(lengthBytes: number, tensor: string): Uint8Array<ArrayBuffer> {
  try {
    return new Uint8Array(lengthBytes);
  } catch (cause) {
    throw new LimitError(`There is no memory for ${lengthBytes} bytes of ${tensor}; select less at a time.`, { tensor }, { cause });
  }
}
