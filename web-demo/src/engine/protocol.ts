/** The messages between the page and its worker. Models live in the worker; the page refers to them by slot. */

import type { Figures, PackReport, Stats, TensorInfo, TensorStatistics } from "zstn";
import type { BandLevel } from "./bands.js";
import type { ChangesRequest, ChangesResult, StatedChange } from "./tensor-change.js";

/** The model that is viewed, and the second one: its base, or the one it is compared with. */
export type Slot = "first" | "second";

/** A tensor of an open model. */
export interface Reference {
  readonly slot: Slot;
  readonly tensor: string;
  /** That of the model's summary. A reference to a model that was closed since is refused. */
  readonly generation?: number | undefined;
}

/** An open model, as far as it is known without reading tensors. */
export interface ModelSummary {
  /** A number that no other opened model has. */
  readonly generation: number;
  readonly name: string;
  readonly kind: string;
  /** Total length of all files, in bytes; `originalBytes` is that of the files they were packed from. */
  readonly sizeBytes: number;
  readonly originalBytes: number;
  readonly fileCount: number;
  readonly metadata: Readonly<Record<string, string>>;
  readonly tensors: readonly TensorInfo[];
  /** Weights that cannot be read: name and reason. */
  readonly unreadable: readonly (readonly [string, string])[];
}

/** A URL, or local files: the one to open, and its siblings. */
export type ModelSource = { readonly address: string } | { readonly file: File; readonly siblings: readonly File[] };

export interface OpenRequest {
  readonly source: ModelSource;
  /** Name to show. */
  readonly name: string;
  /** The token for the server of this model. The second model has its own. */
  readonly token?: string | undefined;
  /** The second model: the base of a delta, or the model to compare with. */
  readonly second?: { readonly source: ModelSource; readonly name: string; readonly token?: string | undefined } | undefined;
}

export interface OpenResult {
  readonly first: ModelSummary;
  readonly second?: ModelSummary;
  /** Why the second model could not be opened. */
  readonly secondError?: SerializedError;
}

/** A part of a tensor as a matrix; ends are exclusive. */
export interface Area {
  readonly rowBegin: number;
  readonly rowEnd: number;
  readonly columnBegin: number;
  readonly columnEnd: number;
}

/** The colour of a pixel: the mean of its cells, or their root mean square. */
export type Shading = "mean" | "rms";

export interface RasterRequest {
  readonly of: Reference;
  /** The tensor to subtract. */
  readonly minus?: Reference | undefined;
  readonly area: Area;
  /** The part of the area in view, which determines the colour scale. */
  readonly view: Area;
  /** The maximum size, in pixels. */
  readonly width: number;
  readonly height: number;
  readonly shading: Shading;
  /** The value at the end of the colour scale, if that is not to be found from the view. */
  readonly limit?: number | undefined;
  readonly dark: boolean;
  /** Whether to fetch missing rows. */
  readonly fetch: boolean;
}

export interface Raster {
  readonly area: Area;
  readonly width: number;
  readonly height: number;
  readonly rgba: Uint8ClampedArray<ArrayBuffer>;
  /** The value at the end of the colour scale, and whether pixels in view exceed it. */
  readonly limit: number;
  readonly isExceeded: boolean;
  /** The value that the end of the colour scale has for this view alone. */
  readonly ownLimit: number;
  /** Whether a cell in view is NaN or infinite. Such pixels are marked. */
  readonly hasNonFinite: boolean;
  /** Whether a pixel in view is finite. Otherwise the limits mean nothing. */
  readonly hasFinite: boolean;
  /** The root mean square by row and column of the image, of the cells in view that were read. NaN where there are none. */
  readonly rowRms: Float32Array<ArrayBuffer>;
  readonly columnRms: Float32Array<ArrayBuffer>;
  /** For each row and column of the image, 1 if a cell in view is not finite. */
  readonly rowMarks: Uint8Array<ArrayBuffer>;
  readonly columnMarks: Uint8Array<ArrayBuffer>;
  /** Whether every row in view was in memory. */
  readonly isComplete: boolean;
  /** The rows of a band, if the levels of some bands stand for rows that were not read. */
  readonly bandRows?: number;
}

/** The cells of an area that are in memory: their number, sum, sum of squares and range. `band` is present if too few are for a picture, which shows the level of the bands then. */
export interface Probe {
  readonly count: number;
  readonly sum: number;
  readonly squares: number;
  readonly min: number;
  readonly max: number;
  readonly band?: BandLevel;
}

/** Values of a vector by bins of equal length. `mins` is NaN where nothing was read, and only `means` is where a value is NaN. */
export interface VectorSeries {
  readonly begin: number;
  readonly end: number;
  readonly mins: Float64Array<ArrayBuffer>;
  readonly maxs: Float64Array<ArrayBuffer>;
  readonly means: Float64Array<ArrayBuffer>;
  readonly isComplete: boolean;
}

/** A small picture of a tensor from a sample of bounded size. */
export interface Thumbnail {
  readonly width: number;
  readonly height: number;
  /** The levels of the rows that were read, one after the other. */
  readonly levels: Float64Array<ArrayBuffer>;
  readonly rowsRead: number;
  readonly rows: number;
  readonly min: number;
  readonly max: number;
  readonly mean: number;
  readonly rms: number;
  readonly zeros: number;
  readonly nonFinite: number;
  readonly count: number;
}

/** Statistics of the values of a tensor, or of the rows that were read. */
export interface Description {
  readonly rows: number;
  readonly columns: number;
  readonly rowsRead: number;
  /** The number of elements of the tensor, and of those that were read. */
  readonly total: number;
  readonly count: number;
  readonly min: number;
  readonly max: number;
  readonly mean: number;
  readonly standardDeviation: number;
  readonly norm: number;
  readonly zeros: number;
  readonly nans: number;
  readonly infinities: number;
  /** The number of rows that are all zeros. */
  readonly zeroRows: number;
  readonly histogram: Histogram;
  /** The histogram of |value| by powers of two. */
  readonly magnitudes: Histogram;
  readonly exponents?: Exponents;
  /** Figures of the whole tensor that were stored when it was packed. Absent where it was read whole. */
  readonly stored?: Figures;
  /** Margins of figures of a sample: half the width of a 95 % interval. Absent where all was read, or too few places to have one. */
  readonly margins?: FigureMargins;
  /** Present for a difference. `skipped` is the number of pairs with NaN or infinity, which norms leave out. */
  readonly difference?: { readonly changed: number; readonly relativeNorm: number; readonly skipped: number };
}

export interface FigureMargins {
  readonly mean: number;
  readonly standardDeviation: number;
  /** Of the norm of the whole tensor. */
  readonly norm: number;
  /** Of the share of changed values, and of the relative norm of a difference. */
  readonly changed?: number;
  readonly relativeNorm?: number;
}

export interface Histogram {
  /** Where each bin begins. All bins have the same width. */
  readonly edges: Float64Array<ArrayBuffer>;
  /** The number of values in each bin, without zeros. */
  readonly counts: Float64Array<ArrayBuffer>;
  readonly outside: number;
}

export interface Exponents {
  /** The smallest exponent that occurs; `counts[i]` values have exponent `first + i`. */
  readonly first: number;
  readonly counts: Float64Array<ArrayBuffer>;
  /** The entropy of an exponent, in bits. */
  readonly entropyBits: number;
  readonly exponentBits: number;
  readonly otherBits: number;
}

export interface DescribeRequest {
  readonly of: Reference;
  readonly minus?: Reference | undefined;
  /** Whether to read all rows, even of a large tensor. */
  readonly whole: boolean;
}

/** Values row by row; NaN also past the end of the tensor. */
export interface Values {
  readonly area: Area;
  readonly values: Float64Array<ArrayBuffer>;
}

/** The stored bytes of packed tensors by bit plane and encoding. */
export interface ByteBreakdown {
  /** Sums by plane and method, largest first. */
  readonly planes: readonly { readonly name: string; readonly method: string; readonly byteLength: number; readonly storedLength: number }[];
  /** The number of tensors with a block table; `otherBytes` are the stored bytes of all others. */
  readonly tensors: number;
  readonly otherBytes: number;
}

export type SaveFormat = "npy" | "bin" | "safetensors";

/** The request and the result of every call. */
export interface Calls {
  open: { request: OpenRequest; result: OpenResult };
  openSecond: { request: { source: ModelSource; name: string; token?: string | undefined }; result: ModelSummary };
  closeSecond: { request: undefined; result: undefined };
  raster: { request: RasterRequest; result: Raster };
  describe: { request: DescribeRequest; result: Description };
  probe: { request: { of: Reference; minus?: Reference | undefined; area: Area }; result: Probe };
  vector: { request: { of: Reference; minus?: Reference | undefined; begin: number; end: number; bins: number; fetch: boolean }; result: VectorSeries };
  thumbnail: { request: { of: Reference; width: number; height: number; maxBytes: number }; result: Thumbnail };
  values: { request: { of: Reference; minus?: Reference | undefined; area: Area }; result: Values };
  breakdown: { request: { slot: Slot; tensor?: string | undefined; generation?: number | undefined }; result: ByteBreakdown };
  stated: { request: { tensors: readonly string[] }; result: readonly StatedChange[] };
  changes: { request: ChangesRequest; result: ChangesResult };
  statistics: { request: { slot: Slot }; result: ReadonlyMap<string, TensorStatistics> | undefined };
  save: { request: { of: Reference; format: SaveFormat }; result: Blob };
  pack: { request: { file: File; base: File | undefined; effort: "fast" | "balanced" | "max"; extended: boolean }; result: PackReport & { blob: Blob } };
}

export type CallName = keyof Calls;

/** An error in a message between threads. */
export interface SerializedError {
  readonly name: string;
  readonly message: string;
  readonly code?: string;
  readonly status?: number;
  /** The URL of the request. */
  readonly url?: string;
}

export interface Step {
  readonly loadedBytes: number;
  readonly totalBytes: number;
}

/** The network counters of all open models. */
export interface NetworkStats extends Stats {
  /** Time during which at least one request was in flight, in milliseconds. */
  readonly busyMs: number;
  /** Bytes of all files that arrived at least once. The rest of `bytesFetched` was read again. */
  readonly uniqueBytes: number;
  /** Ranges of the first model's file that arrived since the last message; none if it has several files. */
  readonly arrived: readonly ByteRange[];
}

/** A part of a file, in bytes; `end` is exclusive. */
export interface ByteRange {
  readonly begin: number;
  readonly end: number;
}

export type ToWorker = { id: number; call: CallName; request: unknown } | { id: number; abort: true };
export type FromWorker =
  | { id: number; result: unknown }
  | { id: number; error: SerializedError }
  | { id: number; step: Step }
  | { network: NetworkStats };
