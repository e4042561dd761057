/** The seam to the WebAssembly core that reads: what it offers. */

import * as glue from "./core/zstn_wasm.js";
import { lazyModule } from "./module.js";
import type { CoreInput, Glue, Start, WasmModule } from "./module.js";
import type { StoredPlane, TensorInfo } from "./tensor.js";

/** Recognises a file from its first bytes and says which further ranges it needs. Does no I/O. */
export interface CoreOpening {
  /** [offset, length, offset, length, …] still missing; empty when ready. */
  needs(): Float64Array;
  supply(offset: number, bytes: Uint8Array): void;
  /** Uses up the opening. */
  finish(): CoreCatalog;
  free(): void;
}

/** What a recognised file holds. */
export interface CoreCatalog {
  /** Whether the model's `config.json` may have something to say about its tensors. */
  wantsConfig(): boolean;
  free(): void;
}

/** The index of a checkpoint in several files. */
export interface CoreShardIndex {
  /** Names of the files beside the index. */
  files(): string[];
  free(): void;
}

/** A model being put together. Does no I/O. */
export interface CoreAssembly {
  /** [file, offset, length, …] still missing. */
  needs(): Float64Array;
  supply(file: number, offset: number, bytes: Uint8Array): void;
  /** Uses up the assembly. */
  finish(): CoreModel;
  free(): void;
}

/** The tensors of a model, over all its files. */
export interface CoreModel {
  kind(): string;
  metadata(): Record<string, string>;
  /** File by file, in data order. */
  tensors(): TensorInfo[];
  /** The rejections of tensors that cannot be had. */
  refused(): unknown[];
  /** Length of the safetensors files that this is or was packed from, or of all tensors where there were none, in bytes. */
  originalBytes(): number;
  /** Where the table lies that `rows` has to be given: [file, offset, length], or nothing. */
  blockTable(index: number): Float64Array;
  rows(index: number, start: number, end: number, table?: Uint8Array): CoreRows;
  /** What each plane takes; undefined where there is no table. */
  planeSizes(index: number, table?: Uint8Array): StoredPlane[] | undefined;
  /** The stored bytes of all parts to the raw little-endian bytes of the tensor: in `into`, or in a fresh array. */
  decode(index: number, parts: Uint8Array[], base?: Uint8Array, into?: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>;
  /** Whether the stored bytes of a tensor are the tensor, with nothing to decode or to compare. */
  isPlain(index: number): boolean;
  /** What decoding this tensor takes in another instance, as the first argument of `CoreDecode`. */
  recipe(index: number): Uint8Array<ArrayBuffer>;
  /** The compiled module it lives in. */
  module(): WasmModule;
  /** Whether that is the one with all formats. */
  hasFormats(): boolean;
  /** Whether it is a delta. */
  needsBase(): boolean;
  /** Throws if the delta was made against something else. */
  checkBase(base: CoreModel): void;
  /** The model as one safetensors file; throws if it cannot be one. */
  unpacked(): CoreUnpacked;
  free(): void;
}

/** A model as one safetensors file. Does no I/O. */
export interface CoreUnpacked {
  /** The file up to its data, in a fresh array. */
  head(): Uint8Array<ArrayBuffer>;
  /** Length of the file, in bytes. */
  sizeBytes(): number;
  /** Whether the file is the one that was packed, byte for byte. */
  isOriginal(): boolean;
  /** [number, begin, end, …] of the tensors in bytes `begin` to `end` of the file, in bytes of the tensor. */
  tensors(begin: number, end: number): Float64Array;
  free(): void;
}

/** Decodes a tensor of a model that lives in another instance of the same module. */
export type CoreDecode = (recipe: Uint8Array, parts: Uint8Array[], base?: Uint8Array) => Uint8Array<ArrayBuffer>;

/** What has to be fetched for some rows of a tensor. Does no I/O. */
export interface CoreRows {
  /** Whether the tensor has to be read as a whole; the rows are then the bytes `span` of it. */
  isWhole(): boolean;
  /** [start, end] in the tensor. */
  span(): Float64Array;
  /** [file, offset, length, …] to fetch. */
  ranges(): Float64Array;
  /** The raw bytes of the rows. */
  decode(parts: Uint8Array[]): Uint8Array<ArrayBuffer>;
  free(): void;
}

/** The core, loaded. */
export interface Core {
  readonly Opening: {
    new (sizeBytes: number, head: Uint8Array): CoreOpening;
    /** Length of the head that `new Opening` wants, in bytes. */
    headBytes(): number;
    /** Whether it takes the module with all formats to open a file that begins so. */
    isLeftOut(head: Uint8Array): boolean;
  };
  readonly ShardIndex: {
    new (json: Uint8Array): CoreShardIndex;
    /** Whether a file with these first bytes is text like that of an index. */
    recognise(head: Uint8Array): boolean;
  };
  /** Uses up the catalogs and the index. */
  readonly Assembly: new (files: CoreCatalog[], shards: CoreShardIndex | undefined, config: Uint8Array | undefined) => CoreAssembly;
}

/** Loads the core with all formats once, when a file of one of them is met. */
export function lazyFormats(start: Start): (input?: CoreInput) => Promise<Core> {
  const glue = (): Promise<Glue> => import("./core/zstn_formats.js");
  return lazyModule({ file: "zstn_formats_bg.wasm", loader: "initFormats", glue }, start);
}

/** Loads the core once; a failed attempt may be repeated. */
export function lazyCore(start: Start): (input?: CoreInput) => Promise<Core> {
  return lazyModule({ file: "zstn_wasm_bg.wasm", loader: "init", glue: () => glue }, start);
}
