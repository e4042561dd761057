/** What the page and its worker say to each other. Models live in the worker; the page knows them by their slot. */

import type { PackReport, Stats, TensorInfo } from "zstn";

/** The model that is looked at, and the one beside it: its base or what it is compared with. */
export type Slot = "first" | "second";

/** A tensor of an open model. */
export interface Reference {
  readonly slot: Slot;
  readonly tensor: string;
}

/** A model that was opened, as far as it is known without reading tensors. */
export interface ModelSummary {
  readonly name: string;
  readonly kind: string;
  /** Length of all files together, and of what they were packed from, in bytes. */
  readonly sizeBytes: number;
  readonly originalBytes: number;
  readonly fileCount: number;
  readonly metadata: Readonly<Record<string, string>>;
  readonly tensors: readonly TensorInfo[];
  /** Weights that cannot be had: name and why. */
  readonly unreadable: readonly (readonly [string, string])[];
}

/** An address, or files of the visitor, of which one is opened and the others lie beside it. */
export type Place = { readonly address: string } | { readonly file: File; readonly beside: readonly File[] };

export interface OpenRequest {
  readonly place: Place;
  /** Name to show. */
  readonly name: string;
  /** For the server of this place; the second model has its own. */
  readonly token?: string | undefined;
  /** The second model: the base of a delta, else what the first is compared with. */
  readonly second?: { readonly place: Place; readonly name: string; readonly token?: string | undefined } | undefined;
}

export interface OpenResult {
  readonly first: ModelSummary;
  readonly second?: ModelSummary;
  /** Why there is no second one, where one was asked for. */
  readonly secondError?: Failure;
}

/** A part of a tensor seen as a matrix; ends are excluded. */
export interface Area {
  readonly rowBegin: number;
  readonly rowEnd: number;
  readonly columnBegin: number;
  readonly columnEnd: number;
}

/** How cells become colour: the mean of those that share a pixel, or their root mean square. */
export type Shading = "value" | "magnitude";

export interface RasterRequest {
  readonly of: Reference;
  /** What is subtracted. */
  readonly minus?: Reference | undefined;
  readonly area: Area;
  /** Most pixels wanted. */
  readonly width: number;
  readonly height: number;
  readonly shading: Shading;
  readonly dark: boolean;
  /** Whether rows that are not here yet are fetched. */
  readonly fetch: boolean;
}

export interface Raster {
  readonly area: Area;
  readonly width: number;
  readonly height: number;
  readonly rgba: Uint8ClampedArray<ArrayBuffer>;
  /** The value that has the full colour. */
  readonly limit: number;
  /** Whether every row of the area was at hand. */
  readonly complete: boolean;
}

/** What is known of the values of a tensor, or of the rows that were looked at. */
export interface Description {
  readonly rows: number;
  readonly columns: number;
  readonly rowsRead: number;
  readonly count: number;
  readonly min: number;
  readonly max: number;
  readonly mean: number;
  readonly standardDeviation: number;
  readonly norm: number;
  readonly zeros: number;
  readonly nans: number;
  readonly infinities: number;
  /** Rows of zeros alone. */
  readonly zeroRows: number;
  readonly histogram: Histogram;
  /** Of |value|, by powers of two. */
  readonly magnitudes: Histogram;
  readonly exponents?: Exponents;
  readonly rowNorms: Series;
  readonly columnNorms: Series;
  /** Only of a difference. */
  readonly difference?: { readonly changed: number; readonly relativeNorm: number };
}

export interface Histogram {
  /** Where each bin begins; the last one ends as far behind its beginning as the others. */
  readonly edges: Float64Array<ArrayBuffer>;
  readonly counts: Float64Array<ArrayBuffer>;
  readonly outside: number;
}

export interface Exponents {
  /** Least exponent that occurs; `counts[i]` values have `first + i`, as powers of two. */
  readonly first: number;
  readonly counts: Float64Array<ArrayBuffer>;
  /** Bits that one exponent takes at least, coded by itself. */
  readonly entropyBits: number;
  readonly exponentBits: number;
  readonly otherBits: number;
}

export interface Series {
  readonly positions: Float64Array<ArrayBuffer>;
  readonly values: Float64Array<ArrayBuffer>;
}

export interface DescribeRequest {
  readonly of: Reference;
  readonly minus?: Reference | undefined;
  /** All rows, or a sample where the tensor is large. */
  readonly whole: boolean;
}

/** Values row by row; NaN also stands where the tensor has ended. */
export interface Values {
  readonly area: Area;
  readonly values: Float64Array<ArrayBuffer>;
}

/** Where the bytes of the packed tensors go. */
export interface ByteShares {
  /** By plane and method, the largest first. */
  readonly planes: readonly { readonly name: string; readonly method: string; readonly byteLength: number; readonly storedLength: number }[];
  /** Tensors that were looked into, and stored bytes of those that say nothing about their planes. */
  readonly tensors: number;
  readonly otherBytes: number;
}

export type SaveFormat = "npy" | "bin" | "safetensors";

/** Every call: what goes in and what comes out. */
export interface Calls {
  open: { request: OpenRequest; result: OpenResult };
  openSecond: { request: { place: Place; name: string; token?: string | undefined }; result: ModelSummary };
  closeSecond: { request: undefined; result: undefined };
  raster: { request: RasterRequest; result: Raster };
  describe: { request: DescribeRequest; result: Description };
  values: { request: { of: Reference; minus?: Reference | undefined; area: Area }; result: Values };
  shares: { request: { slot: Slot; tensor?: string | undefined }; result: ByteShares };
  save: { request: { of: Reference; format: SaveFormat }; result: Blob };
  pack: { request: { file: File; effort: "fast" | "balanced" | "max" }; result: PackReport & { blob: Blob } };
}

export type CallName = keyof Calls;

/** An error that has crossed from one thread to the other. */
export interface Failure {
  readonly name: string;
  readonly message: string;
  readonly code?: string;
  readonly status?: number;
  /** The address that was asked. */
  readonly url?: string;
}

export interface Step {
  readonly loadedBytes: number;
  readonly totalBytes: number;
}

/** What reading has cost so far, over all open models. */
export interface Wire extends Stats {
  /** Time in which at least one request was under way, in milliseconds. */
  readonly busyMs: number;
  /** Ranges of the first model's file that arrived since the last word. */
  readonly arrived: readonly ByteRange[];
}

/** A part of a file, in bytes; `end` is excluded. */
export interface ByteRange {
  readonly begin: number;
  readonly end: number;
}

export type ToWorker = { id: number; call: CallName; request: unknown } | { id: number; abort: true };
export type FromWorker =
  | { id: number; result: unknown }
  | { id: number; failure: Failure }
  | { id: number; step: Step }
  | { wire: Wire };
