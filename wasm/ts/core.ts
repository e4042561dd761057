/** The interface of the WebAssembly core for reading. */

import type { Instance } from "./instance.js";
import type { WasmModule } from "./wasm-input.js";
import type { ModelKind } from "./model-kind.js";

/** Recognises a file from its first bytes and says which further ranges it needs. Does no I/O. */
export interface CoreOpening {
  /** Returns the missing ranges, [offset, length, offset, length, …]; empty when complete. */
  needs(): Float64Array;
  supply(offset: number, bytes: Uint8Array): void;
  /** Consumes the opening. */
  finish(): CoreCatalog;
  free(): void;
}

/** The contents of a recognised file. */
export interface CoreCatalog {
  /** Returns whether the model's `config.json` may describe its tensors. */
  wantsConfig(): boolean;
  /** Returns whether the file has checksums of everything that opening and decoding read, which are compared. */
  isCovered(): boolean;
  /** Returns whether comparing what is read, with digests if `full`, takes the module with all formats. */
  isVerifyLeftOut(full: boolean): boolean;
  free(): void;
}

/** The index of a checkpoint in several files. */
export interface CoreShardIndex {
  free(): void;
}

/** A model being built. Does no I/O. */
export interface CoreAssembly {
  /** Returns the missing ranges, [file, offset, length, …]. */
  needs(): Float64Array;
  supply(file: number, offset: number, bytes: Uint8Array): void;
  /** Consumes the assembly. With `full`, the digests of decoded tensors are compared as well. */
  finish(full: boolean): CoreModel;
  free(): void;
}

/** The tensors of a model, over all its files, and where they are stored. */
export interface ModelLayout {
  /** Returns whether the model is a delta. */
  needsBase(): boolean;
  /** Returns the model as one safetensors file. Throws if that is not possible. */
  unpacked(): CoreUnpacked;
  free(): void;
}

/** A model in the WebAssembly core. */
export interface CoreModel extends ModelLayout {
  /** Returns the range whose bytes `rows` takes as a table, [file, offset, length]; empty if it takes none. */
  blockTable(index: number): Float64Array;
  /** Returns the range to read instead of a table that is too short; empty if it is not. The module that reads no deltas does without. */
  longerTable?(index: number, table: Uint8Array): Float64Array;
  rows(index: number, start: number, end: number, table?: Uint8Array): CoreRows;
  /** Returns a line for each plane: its name, its method, and its decoded and stored lengths, with tabs between them; `undefined` without a table. */
  planeSizes(index: number, table?: Uint8Array): string | undefined;
  /** Returns what opening says of the model, as `wasm/src/description.rs` describes it. */
  describe(): [kind: ModelKind, originalBytes: number, text: string, numbers: Float64Array, refused: unknown[]];
  /** Decodes the stored bytes of all parts to the raw little-endian bytes of the tensor, in `into` or a new array. */
  decode(index: number, parts: Uint8Array[], base?: Uint8Array, into?: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>;
  /** Returns the record of statistics of a file and, after it, the offset at which its bands end as 8 bytes; `undefined` if it has none. */
  statistics(file: number): Uint8Array | undefined;
  /** Returns the short digests of all tensors one after the other, 16 bytes for each; zeros where a file has none. */
  digests(): Uint8Array;
  /** Returns whether the stored bytes are the tensor itself, with nothing to decode or verify. */
  isPlain(index: number): boolean;
  /** Returns what another instance needs to decode this tensor: the first argument of `CoreDecode`. */
  task(index: number): Uint8Array<ArrayBuffer>;
  /** Returns the compiled module of this instance. */
  module(): WasmModule;
  /** Returns whether that is the module with all formats. */
  hasFormats(): boolean;
  /** Throws if the delta was made against another base; keeps the digests that this one holds of its tensors. */
  checkBase(base: CoreModel): void;
}

/** A model as one safetensors file. Does no I/O. */
export interface CoreUnpacked {
  /** Returns the file up to its data, in a new array. */
  head(): Uint8Array<ArrayBuffer>;
  /** Length of the file, in bytes. */
  sizeBytes(): number;
  /** Returns whether the file is identical to the one that was packed. */
  isOriginal(): boolean;
  /** Returns the tensors within bytes `begin` to `end` of the file: [index, begin, end, …], in bytes of the tensor. */
  tensors(begin: number, end: number): Float64Array;
  free(): void;
}

/** Decodes a tensor of a model that lives in another instance of the same module. */
export type CoreDecode = (task: Uint8Array, parts: Uint8Array[], base?: Uint8Array) => Uint8Array<ArrayBuffer>;

/** A plan for reading some rows of a tensor. Does no I/O. */
export interface CoreRows {
  /** Returns whether the whole tensor has to be read. The rows are then the bytes `span` of it. */
  isWhole(): boolean;
  /** Returns [start, end] in the tensor, in bytes. */
  span(): Float64Array;
  /** Returns the ranges to fetch, [file, offset, length, …]. */
  ranges(): Float64Array;
  /**
   * Returns which rows of the base's tensor are needed as well, and which of their bytes, [first, last, begin, end]; empty if
   * none are. The module that reads no deltas has none.
   */
  baseRows?(rows: number, byteLength: number): Float64Array;
  /** Returns the raw bytes of the rows, from the bytes of `ranges` and of `baseRows`. */
  decode(parts: Uint8Array[], base?: Uint8Array): Uint8Array<ArrayBuffer>;
  free(): void;
}

/** The loaded core. */
export interface Core {
  readonly Opening: new (sizeBytes: number, head: Uint8Array) => CoreOpening;
  readonly ShardIndex: new (json: Uint8Array) => CoreShardIndex;
  /** Consumes the catalogs and the index. */
  readonly Assembly: new (files: CoreCatalog[], shards: CoreShardIndex | undefined, config: Uint8Array | undefined) => CoreAssembly;
  readonly decode: CoreDecode;
  /** Returns the checksum of the figures of bands. */
  readonly bandsChecksum: (bands: Uint8Array) => number;
}

/** A running core. */
export type CoreInstance = Instance<Core>;

/** What a model lives in: a running core, or nothing that could trap. */
export type ModelInstance = Instance<unknown>;
