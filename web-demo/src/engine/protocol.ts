/** The messages that the page and its worker exchange. Models live in the worker; the page refers to them by slot. */

import type { BlockScaled, Figures, PackReport, Stats, TensorInfo } from "zstn";
import type { ModelConfig } from "../overview/about/config.js";
import type { Facts } from "../overview/about/facts.js";
import type { HealthReport } from "../overview/health/report.js";
import type { EncodedStacks } from "../overview/layers/encoded-stacks.js";
import type { Frame } from "../overview/picture/layout.js";
import type { LayerFamily } from "../tensor/layer-family.js";
import type { Order } from "../tree/rows.js";
import type { BandLevel, StoredFigures } from "./bands.js";
import type { Levels } from "./levels/report.js";
import type { ModelFigures } from "./model-figures.js";
import type { StatisticsColumns } from "./statistics-table.js";
import type { ChangesRequest, ChangesResult, StatedChange } from "./tensor-change.js";
import type { TensorColumns } from "./tensor-table.js";

/** The model that is viewed, and the second model: its base, or the model that it is compared with. */
export type Slot = "first" | "second";

/**
 * A part of a tensor: an index for each of its first axes, `null` for all indices of an axis; or an entry for every axis:
 * `"rows"` and `"columns"` for the axes that the view shows, and an index for each other axis.
 */
export type Slice = readonly (number | null | "rows" | "columns")[];

/** A tensor of an open model. */
export interface Reference {
  readonly slot: Slot;
  readonly tensor: string;
  /** The slice to view; empty or absent for the whole tensor. */
  readonly slice?: Slice | undefined;
  /** The `generation` of the model's summary. If it is given, the reference is rejected once that model has been closed. */
  readonly generation?: number | undefined;
  /** True for the values that the tensor's elements have with the scales of their blocks. */
  readonly isDecoded?: boolean | undefined;
}

/** The properties of an open model that are available without reading tensors. */
export interface ModelSummary {
  /** A number that is unique among all models that have been opened. */
  readonly generation: number;
  readonly name: string;
  readonly kind: string;
  /** Total length of all files, in bytes. `originalBytes` is the total length of the files that they were packed from. */
  readonly sizeBytes: number;
  readonly originalBytes: number;
  readonly fileCount: number;
  readonly metadata: Readonly<Record<string, string>>;
  readonly columns: TensorColumns;
  readonly figures: ModelFigures;
  /** The weights that cannot be read: their number, and the name and reason of the first ones. */
  readonly unreadable: { readonly tensors: number; readonly listed: readonly (readonly [string, string])[] };
}

/** The state of the list that determines which tensors it contains, and their order. */
export interface ListFilter {
  /** The text of the search, and the type to show; empty for all. */
  readonly q: string;
  readonly dtype: string;
  readonly order: Order;
  /** The indices of the tensors that match the search, if it is a regular expression. */
  readonly matches?: Int32Array<ArrayBuffer> | undefined;
}

export interface ListRequest extends ListFilter {
  /** The paths of the open modules; `undefined` for those that are open at first, and those that contain the tensor `reveal`. */
  readonly open: readonly string[] | undefined;
  readonly reveal?: string | undefined;
  /** The paths of the modules that are closed in search results. */
  readonly closed: readonly string[];
}

/** The rows of the list (`RowList`), and the number of tensors. `open` has the paths of the open modules, unless the list is filtered. */
export interface Arranged {
  readonly rows: Float64Array<ArrayBuffer>;
  readonly found: number;
  readonly open?: readonly string[];
}

export interface FactsRequest {
  /** The name of the model, and the `config.json` next to it. */
  readonly name: string;
  readonly config?: ModelConfig | undefined;
}

/** A request for the rectangles of a treemap of this size, in pixels, whose areas are stored or original sizes. */
export interface TreemapRequest {
  readonly width: number;
  readonly height: number;
  readonly measure: "stored" | "original";
}

export interface TreemapCells {
  /** The left and top edge, the width and the height of each rectangle. */
  readonly rectangles: Float32Array<ArrayBuffer>;
  /** The index of the tensor that each rectangle shows. */
  readonly tensors: Int32Array<ArrayBuffer>;
  readonly frames: readonly Frame[];
}

/** A model in a slot. `generation` is that of its summary; the request is rejected once that model has been closed. */
export interface OfModel {
  readonly slot: Slot;
  readonly generation: number;
}

/** A URL, or local files: the file to open and its siblings. */
export type ModelSource = { readonly address: string } | { readonly file: File; readonly siblings: readonly File[] };

/** A model that can be opened. */
export interface ResolvedInput {
  readonly source: ModelSource;
  /** The name to display. */
  readonly name: string;
  /** The address of a file of a repository, if the text was written like one but is read from this site. */
  readonly inRepository?: string | undefined;
}

/** The files of a repository that has several models and no obvious choice among them. */
export interface Choice {
  readonly repository: string;
  readonly files: readonly { readonly path: string; readonly address: string }[];
}

/** A text to resolve. `hub` is the URL of a hub in addition to Hugging Face, and `page` the URL that relative ones refer to. */
export interface ResolveRequest {
  readonly text: string;
  readonly hub: string | undefined;
  readonly page: string;
  /** The access tokens by the origins of their servers. */
  readonly tokens: ReadonlyMap<string, string>;
}

export type ResolveResult = ResolvedInput | Choice;

export interface OpenRequest extends ResolvedInput {
  /** The access token for the server of this model. The second model has its own. */
  readonly token?: string | undefined;
  /** The second model: the base of a delta, or the model to compare with. */
  readonly second?: { readonly source: ModelSource; readonly name: string; readonly token?: string | undefined } | undefined;
}

export interface OpenResult {
  readonly first: ModelSummary;
  readonly second?: ModelSummary;
  /** The error of the second model, if it could not be opened. */
  readonly secondError?: SerializedError;
}

/** An area of a tensor that is shown as a matrix; ends are exclusive. */
export interface Area {
  readonly rowBegin: number;
  readonly rowEnd: number;
  readonly columnBegin: number;
  readonly columnEnd: number;
}

/** The figure that determines the colour of a pixel: the mean or the root mean square of its cells. */
export type Shading = "mean" | "rms";

export interface RasterRequest {
  readonly of: Reference;
  /** The tensor to subtract. */
  readonly minus?: Reference | undefined;
  readonly area: Area;
  /** The visible part of the area, which determines the colour scale. */
  readonly view: Area;
  /** The maximum size of the image, in pixels. */
  readonly width: number;
  readonly height: number;
  readonly shading: Shading;
  /** The value at the end of the colour scale; by default it is determined from the view. */
  readonly limit?: number | undefined;
  readonly dark: boolean;
  /** True to fetch missing rows. */
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
  /** The value that the end of the colour scale would have for this view alone. */
  readonly ownLimit: number;
  /** True if a cell in view is NaN or infinite. `marks` is then an image whose opaque pixels have such cells. */
  readonly hasNonFinite: boolean;
  readonly marks?: Uint8ClampedArray<ArrayBuffer>;
  /** True if a pixel in view is finite. If none is, the limits have no meaning. */
  readonly hasFinite: boolean;
  /** The root mean square of each row and column of the image, over the cells in view that were read; NaN if there are none. */
  readonly rowRms: Float32Array<ArrayBuffer>;
  readonly columnRms: Float32Array<ArrayBuffer>;
  /** For each row and column of the image, 1 if a cell in view is not finite. */
  readonly rowMarks: Uint8Array<ArrayBuffer>;
  readonly columnMarks: Uint8Array<ArrayBuffer>;
  /** True if every row in view was in memory. */
  readonly isComplete: boolean;
  /** The number of rows in a band; present if some rows that were not read show the levels of their bands. */
  readonly bandRows?: number;
}

/**
 * Figures of the cells of an area that are in memory: their number, sum, sum of squares and range. `band` is present if
 * so few cells were read that the image shows the level of the bands instead.
 */
export interface Probe {
  readonly count: number;
  readonly sum: number;
  readonly squares: number;
  readonly min: number;
  readonly max: number;
  readonly band?: BandLevel;
}

/**
 * The values of a vector in bins of equal length. `mins` is NaN for bins that were not read. If a bin contains a NaN,
 * only its mean is NaN.
 */
export interface VectorSeries {
  readonly begin: number;
  readonly end: number;
  readonly mins: Float64Array<ArrayBuffer>;
  readonly maxs: Float64Array<ArrayBuffer>;
  readonly means: Float64Array<ArrayBuffer>;
  readonly isComplete: boolean;
}

/** A thumbnail of a tensor, from a sample of bounded size. */
export interface Thumbnail {
  readonly width: number;
  readonly height: number;
  /** The mean or RMS of the cells of each pixel, row by row. The picture leaves out the rows that were not read. */
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
  /** The number of elements in the tensor; `count` is the number of elements that were read. */
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
  /** The number of rows that contain only zeros. */
  readonly zeroRows: number;
  readonly histogram: Histogram;
  /** The histogram of |value| by powers of two. */
  readonly magnitudes: Histogram;
  readonly exponents?: Exponents;
  /** The number of bytes that reading all rows fetches, if they are a slice of a tensor. */
  readonly costBytes?: number;
  /** The figures of the whole tensor that were stored when it was packed. Absent if the whole tensor was read. */
  readonly stored?: Figures;
  /**
   * The margins of figures from a sample: half the width of a 95 % interval. Absent if all rows were read, or too few
   * groups for a margin.
   */
  readonly margins?: FigureMargins;
  /** Present for a difference. `skipped` is the number of pairs with NaN or infinity, which the norms leave out. */
  readonly difference?: { readonly changed: number; readonly relativeNorm: number; readonly skipped: number };
}

export interface FigureMargins {
  readonly mean: number;
  readonly standardDeviation: number;
  /** The margin of the norm of the whole tensor. */
  readonly norm: number;
  /** The margins of the share of changed values, and of the relative norm of a difference. */
  readonly changed?: number;
  readonly relativeNorm?: number;
}

export interface Histogram {
  /** The lower edge of each bin. All bins have the same width. */
  readonly edges: Float64Array<ArrayBuffer>;
  /** The number of values in each bin, excluding zeros. */
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
  /** True to read all rows, even of a large tensor. */
  readonly whole: boolean;
}

/** The values of an area, row by row; NaN also marks cells past the end of the tensor. */
export interface Values {
  readonly area: Area;
  readonly values: Float64Array<ArrayBuffer>;
}

/** A request for the rows with a problem, among the rows of these ranges; ends are exclusive. */
export interface LocateRequest {
  readonly of: Reference;
  readonly ranges: readonly (readonly [begin: number, end: number])[];
  readonly problem: "nan" | "infinite" | "dead" | "outlier";
}

/** The rows that were found, in order. `rows` has at most 200 of them, and `count` is their number. */
export interface Located {
  readonly rows: readonly number[];
  readonly count: number;
  /** The column of the value, if there is only one. */
  readonly column: number | undefined;
}

/** The stored bytes of packed tensors by bit plane and encoding. */
export interface ByteBreakdown {
  /** The sums by plane and method, largest first. */
  readonly planes: readonly { readonly name: string; readonly method: string; readonly byteLength: number; readonly storedLength: number }[];
  /** The number of tensors with a block table. `otherBytes` is the total stored length of all other tensors. */
  readonly tensors: number;
  readonly otherBytes: number;
}

export type SaveFormat = "npy" | "bin" | "safetensors";

/** The request and the result of every call. */
export interface Calls {
  resolve: { request: ResolveRequest; result: ResolveResult };
  open: { request: OpenRequest; result: OpenResult };
  openSecond: { request: { source: ModelSource; name: string; token?: string | undefined }; result: ModelSummary };
  closeSecond: { request: undefined; result: undefined };
  raster: { request: RasterRequest; result: Raster };
  describe: { request: DescribeRequest; result: Description };
  /** Returns the weight whose elements a tensor contains, if its blocks have scales in other tensors. */
  decoded: { request: { of: Reference }; result: { readonly weight: BlockScaled; readonly info: TensorInfo } | undefined };
  /** Looks for a grid in the rows in memory. Reads nothing. */
  levels: { request: { of: Reference }; result: Levels };
  probe: { request: { of: Reference; minus?: Reference | undefined; area: Area }; result: Probe };
  vector: { request: { of: Reference; minus?: Reference | undefined; begin: number; end: number; bins: number; fetch: boolean }; result: VectorSeries };
  thumbnail: { request: { of: Reference; width: number; height: number; maxBytes: number }; result: Thumbnail };
  values: { request: { of: Reference; minus?: Reference | undefined; area: Area }; result: Values };
  breakdown: { request: { slot: Slot; tensor?: string | undefined; generation?: number | undefined }; result: ByteBreakdown };
  stated: { request: { tensors: readonly string[] }; result: readonly StatedChange[] };
  changes: { request: ChangesRequest; result: ChangesResult };
  list: { request: OfModel & ListRequest; result: Arranged };
  /** Returns the indices of the tensors in the order of the list, including those in closed modules. */
  sequence: { request: OfModel & ListFilter; result: Int32Array<ArrayBuffer> };
  /** Returns the indices of the tensors whose names are most similar to a text. */
  nearest: { request: OfModel & { text: string }; result: readonly number[] };
  facts: { request: OfModel & FactsRequest; result: Facts };
  layers: { request: OfModel; result: EncodedStacks };
  treemap: { request: OfModel & TreemapRequest; result: TreemapCells };
  health: { request: OfModel; result: HealthReport };
  /** Returns the names of tensors of the same shape, those of the second model first. */
  alike: { request: { of: Reference; limit: number }; result: readonly string[] };
  families: { request: { of: Reference }; result: readonly LayerFamily<number>[] };
  statistics: { request: { slot: Slot }; result: StatisticsColumns | undefined };
  bands: { request: { of: Reference }; result: StoredFigures | undefined };
  locate: { request: LocateRequest; result: Located };
  /** Reads all floating-point tensors, and returns their statistics. */
  measure: { request: { slot: Slot }; result: StatisticsColumns | undefined };
  config: { request: undefined; result: string | undefined };
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
  /** The URL of the failed request. */
  readonly url?: string;
  /** The server that refused access, if another token may help. */
  readonly origin?: string;
}

export interface Step {
  readonly loadedBytes: number;
  readonly totalBytes: number;
}

/** The network counters of all open models. */
export interface NetworkStats extends Stats {
  /** The time during which at least one request was in flight, in milliseconds. */
  readonly busyMs: number;
  /** The number of bytes of all files that arrived at least once. The rest of `bytesFetched` was fetched again. */
  readonly uniqueBytes: number;
  /** The ranges of the first model's file that arrived since the last message; empty if the model has several files. */
  readonly arrived: readonly ByteRange[];
}

/** A range of a file, in bytes; `end` is exclusive. */
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
