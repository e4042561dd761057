/** Reads the statistics of tensors that were stored when a file was packed (docs/formats/zstn-integrity.md 7). */

import { uncompared } from "./mixed-versions.js";
import { readRanges } from "./byte-ranges.js";
import type { CoreModel, ModelInstance } from "./core.js";
import { toFloat32, typedArray } from "./dtype.js";
import type { Dtype } from "./dtype.js";
import { FormatError } from "./errors.js";
import type { PackedFile } from "./opened-file.js";
import type { ReadOptions, Source } from "./source/source.js";
import type { StoredPart, TensorInfo } from "./tensor.js";
import type { PackedModel } from "./zstn/packed-model.js";
import { xxh3 } from "./zstn/xxh3.js";

/** Options of `model.statistics`. */
export interface StatisticsOptions {
  /** Aborts the read, which then rejects with the reason of the signal. */
  signal?: AbortSignal;
}

/** Summary figures of the elements of a tensor, or of a band of its rows. */
export interface Figures {
  /** The number of elements. */
  readonly count: number;
  /** The least finite element; NaN if no element is finite. 64-bit integers are rounded to the nearest 64-bit float. */
  readonly min: number;
  /** The greatest finite element; NaN if no element is finite. */
  readonly max: number;
  /** The mean of the finite elements; NaN if there are none. */
  readonly mean: number;
  /** The root mean square of the finite elements; NaN if there are none. */
  readonly rms: number;
  /** The number of elements that are zero, of either sign. */
  readonly zeros: number;
  /** The number of elements that are NaN. */
  readonly nans: number;
  /** The number of elements that are infinite, of either sign. */
  readonly infinities: number;
}

/** Statistics of a whole tensor, and of bands of its rows. */
export interface TensorStatistics extends Figures {
  /**
   * The number of rows in each band; the last band can have fewer. 256, or more in narrow matrices. A row is a run
   * along the last dimension; a vector is one row.
   */
  readonly rowsPerBand: number;
  /**
   * The figures of each band of rows, in the order of the rows. `undefined` unless the statistics of this one tensor
   * were requested.
   */
  readonly bands: readonly Figures[] | undefined;
}

/** The number of rows in a band, unless the rows are short. */
const ROWS_PER_BAND = 256;
/** The least number of elements in a band of several rows. */
const MIN_BAND_ELEMENTS = 2 ** 16;
/** The length of the checksum that follows the bands of a tensor, in bytes. */
const CHECKSUM_BYTES = 4;
const WITHOUT_FIGURES: readonly Dtype[] = ["F4", "F6_E2M3", "F6_E3M2", "C64"];
/** The dtypes whose mean and root mean square are stored as 64-bit floats. */
const WIDE: readonly Dtype[] = ["I32", "U32", "F64", "I64", "U64"];

/**
 * Returns the statistics record of a file, followed by the position at which its bands end, like `CoreModel.statistics`.
 * `tensors` are all tensors of the model.
 */
export function statisticsRecord(model: Pick<CoreModel, "statistics"> | PackedModel, file: number, tensors: readonly TensorInfo[]): Uint8Array | undefined {
  if (!("files" in model)) return model.statistics(file);
  const head = (model.files[file] as Partial<PackedFile>).packed;
  const record = head?.section.get("STAT");
  const own = tensors.filter(({ parts }) => parts[0]?.file === file);
  // The record lists the tensors of the file, so it cannot be used if the model has some of them from other files.
  if (!record || own.length !== head!.records.length) return undefined;
  const all = new Uint8Array(record.byteLength + 8);
  all.set(record);
  new DataView(all.buffer).setBigUint64(record.byteLength, BigInt(head!.bandsEnd), true);
  return all;
}

/** The statistics of the files of a model. All figures are validated before they are returned. */
export class StoredStatistics {
  /** The statistics of all tensors, without their bands. */
  readonly all: ReadonlyMap<string, TensorStatistics> | undefined;
  readonly #sources: readonly Source[];
  readonly #tensors: ReadonlyMap<string, TensorInfo>;
  /** The byte range of the bands of each tensor that has several bands. */
  readonly #bands = new Map<string, StoredPart>();

  constructor(instance: ModelInstance, core: Pick<CoreModel, "statistics"> | PackedModel, sources: readonly Source[], tensors: ReadonlyMap<string, TensorInfo>) {
    this.#sources = uncompared(sources);
    this.#tensors = tensors;
    const all = new Map<string, TensorStatistics>();
    let any = false;
    for (let file = 0; file < sources.length; file++) {
      const record = instance.call(() => statisticsRecord(core, file, [...tensors.values()]));
      if (!record) continue;
      any = true;
      this.#parse(file, record, all);
    }
    if (!any) return;
    for (const info of tensors.values()) {
      const target = info.aliasOf === undefined ? undefined : tensors.get(info.aliasOf);
      const shared = target && all.get(target.name);
      // Tensors with equal bytes can still differ in dtype or shape.
      if (!shared || target.dtype !== info.dtype || target.shape.join() !== info.shape.join()) continue;
      all.set(info.name, shared);
      const bands = this.#bands.get(target.name);
      if (bands) this.#bands.set(info.name, bands);
    }
    // Restores the order of the tensors.
    this.all = new Map([...tensors.keys()].flatMap((name) => (all.has(name) ? [[name, all.get(name)!]] : [])));
  }

  /** Returns the statistics of a tensor with its bands. Rejects with a `FormatError` if the bands are damaged. */
  async withBands(name: string, options: ReadOptions): Promise<TensorStatistics | undefined> {
    const summary = this.all?.get(name);
    if (!summary) return undefined;
    const { count, min, max, mean, rms, zeros, nans, infinities } = summary;
    const place = this.#bands.get(name);
    if (!place) return { ...summary, bands: [{ count, min, max, mean, rms, zeros, nans, infinities }] };
    const [bytes] = await readRanges(this.#sources, [place], options);
    options.signal?.throwIfAborted();
    return { ...summary, bands: this.#parseBands(this.#tensors.get(name)!, bytes!) };
  }

  /** Adds the entries of one file to `all`. They are in the order of the file's tensors. */
  #parse(file: number, record: Uint8Array, all: Map<string, TensorStatistics>): void {
    const trailer = record.length - 8;
    const bandsEnd = Number(new DataView(record.buffer, record.byteOffset).getBigUint64(trailer, true));
    const reader = new FiguresReader(record.subarray(0, trailer));
    const lengths: [name: string, length: number][] = [];
    let total = 0;
    for (const info of this.#tensors.values()) {
      if (info.parts[0]?.file !== file || info.aliasOf !== undefined) continue;
      const length = reader.number() - 1;
      if (length < 0) continue;
      const { count, bands, rowsPerBand } = gridOf(info.shape);
      if (count === 0 || WITHOUT_FIGURES.includes(info.dtype)) throw malformed(info.name);
      if (bands === 1 ? length !== 0 : length < bands + CHECKSUM_BYTES) throw malformed(info.name);
      all.set(info.name, Object.freeze({ ...reader.figures(count, info), rowsPerBand, bands: undefined }));
      if (length > 0) lengths.push([info.name, length]);
      total += length;
    }
    if (reader.left > 0 || total > bandsEnd) throw malformed();
    let offset = bandsEnd - total;
    for (const [name, length] of lengths) {
      this.#bands.set(name, { file, offset, length });
      offset += length;
    }
  }

  #parseBands(info: TensorInfo, bytes: Uint8Array): Figures[] {
    const bands = bytes.subarray(0, bytes.length - CHECKSUM_BYTES);
    const expected = new DataView(bytes.buffer, bytes.byteOffset + bands.length).getUint32(0, true);
    if (Number(xxh3(bands) & 0xffffffffn) !== expected) throw malformed(info.name);
    const reader = new FiguresReader(bands);
    const grid = gridOf(info.shape);
    const figures: Figures[] = [];
    for (let first = 0; first < grid.rows; first += grid.rowsPerBand) {
      figures.push(reader.figures(Math.min(grid.rowsPerBand, grid.rows - first) * grid.columns, info));
    }
    if (reader.left > 0) throw malformed(info.name);
    return figures;
  }
}

/** Returns the number of rows of a tensor and their division into bands. */
function gridOf(shape: readonly number[]): { count: number; rows: number; columns: number; rowsPerBand: number; bands: number } {
  const columns = shape.at(-1) ?? 1;
  const rows = shape.slice(0, -1).reduce((product, length) => product * length, 1);
  let rowsPerBand = ROWS_PER_BAND;
  while (rowsPerBand < rows && rowsPerBand * columns < MIN_BAND_ELEMENTS) rowsPerBand *= 2;
  return { count: rows * columns, rows, columns, rowsPerBand, bands: Math.ceil(rows / rowsPerBand) };
}

function malformed(tensor?: string): FormatError {
  const of = tensor === undefined ? "this file" : `the tensor ${tensor}`;
  return new FormatError(`The stored statistics of ${of} are damaged. Get the file again.`, { rule: "zstn.statistics", tensor });
}

/** Reads figures sequentially from encoded bytes. */
class FiguresReader {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** The number of unread bytes. */
  get left(): number {
    return this.#bytes.length - this.#at;
  }

  /** Reads a variable-length number: seven bits in each byte, least significant bits first. */
  number(): number {
    let number = 0;
    for (let weight = 1; ; weight *= 128) {
      const byte = this.#take(1)[0]!;
      number += (byte & 0x7f) * weight;
      if (!Number.isSafeInteger(number)) throw malformed();
      if (byte < 0x80) return number;
    }
  }

  /** Reads the figures of `count` elements. Throws a `FormatError` if they are impossible. */
  figures(count: number, { dtype, name }: Pick<TensorInfo, "dtype" | "name">): Figures {
    const tagged = this.number();
    const zeros = Math.floor(tagged / 2);
    const [nans, infinities] = tagged % 2 === 1 ? [this.number(), this.number()] : [0, 0];
    if (zeros + nans + infinities > count) throw malformed(name);
    const counts = { count, zeros, nans, infinities };
    if (nans + infinities === count) return { ...counts, min: NaN, max: NaN, mean: NaN, rms: NaN };
    const [min, max] = [this.#element(dtype), this.#element(dtype)];
    const of = WIDE.includes(dtype) ? "F64" : "F32";
    const [mean, rms] = [this.#element(of), this.#element(of)];
    const isPossible =
      min <= mean && mean <= max && 0 <= rms && rms <= Math.max(max, -min) && Number.isFinite(min) && Number.isFinite(max) && (zeros === 0 || (min <= 0 && 0 <= max));
    if (!isPossible) throw malformed(name);
    return { ...counts, min, max, mean, rms };
  }

  /** Reads an element of a dtype. Elements of all 64-bit dtypes are stored as 64-bit floats. */
  #element(dtype: Dtype): number {
    const width = { F64: 8, I64: 8, U64: 8, F32: 4, I32: 4, U32: 4, F16: 2, BF16: 2, I16: 2, U16: 2 }[dtype as string] ?? 1;
    const bytes = new Uint8Array(this.#take(width));
    const view = new DataView(bytes.buffer);
    if (width === 8) return view.getFloat64(0, true);
    if (dtype === "I32") return view.getInt32(0, true);
    if (dtype === "U32") return view.getUint32(0, true);
    const number = dtype === "BOOL" ? "U8" : dtype;
    return toFloat32(number, "", typedArray(number, "", bytes), 0, 1)[0]!;
  }

  #take(length: number): Uint8Array {
    if (length > this.left) throw malformed();
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }
}
