/** The types of model files whose tensors are known. */

import type { CoreCatalog, CoreInstance, CoreModel } from "./core.js";
import type { ProgressMeter } from "./progress.js";
import type { Header } from "./safetensors/header.js";
import type { Source } from "./source/source.js";
import type { StoredPart, TensorInfo } from "./tensor.js";
import type { PackedHead } from "./zstn/packed-head.js";

/** The bytes that have been read from a file, from which another core can build its catalog again. */
export interface ReadFile {
  source: Source;
  /** Length of the file, in bytes. */
  sizeBytes: number;
  /** The original that `source` reads, if `sizeBytes` is the length of the packed file that restores it. */
  original?: Original;
  /** Reads the tensors that are only parts of entries of this packed file; absent if there are none. */
  views?: Views;
  /** The name of the file, if it determines the format or if the file is a shard. */
  name?: string;
  /** The first bytes of the file. */
  head: Uint8Array;
  /** The ranges that were read after the head. */
  supplied: Supplied[];
}

/** The index of a model in several files. */
export interface ReadShards {
  source: Source;
  text: Uint8Array;
}

/** Bytes of a file, and their position. */
export interface Supplied {
  offset: number;
  bytes: Uint8Array;
}

/** A file that is read inside the packed file that restores it. */
export interface Original {
  /** Returns the length of the file, in bytes. */
  size(): number;
  /** Frees the memory of the packed file. Called when the model is closed, or cannot be built. */
  close(): unknown;
}

/** A tensor that may be a part of an entry. */
export interface ViewedTensor {
  model: CoreModel;
  /** Index of the tensor in the model. */
  index: number;
  info: TensorInfo;
}

/** Reads tensors that are only parts of entries of a packed file, without decoding the whole entries. */
export interface Views {
  /**
   * Returns the raw bytes of a tensor, in `into` if it is given, which has exactly their length; `undefined` if the
   * tensor is no part of an entry.
   */
  readView(tensor: ViewedTensor, signal: AbortSignal, meter: ProgressMeter, into: Uint8Array<ArrayBuffer> | undefined): Promise<Uint8Array<ArrayBuffer>> | undefined;
  /** Returns the ranges that `readView` fetches; `undefined` if it fetches the whole entry. */
  planView(model: CoreModel, index: number, info: TensorInfo, signal: AbortSignal): Promise<StoredPart[] | undefined>;
  /** Frees the memory of the entries. Called when the model is closed, or cannot be built. */
  close(): unknown;
}

/** An opened plain safetensors file, with its parsed header. */
export interface PlainFile extends ReadFile {
  header: Header;
  /** The position of the tensor data in the file, in bytes. */
  dataBegin: number;
}

/** An opened file that was packed from safetensors, with its parsed head. */
export interface PackedFile extends PlainFile {
  packed: PackedHead;
}

/** An opened file that the WebAssembly core reads, with its catalog. */
export interface CoreFile extends ReadFile {
  /** The core that built the catalog. No other core can use it. */
  core: CoreInstance;
  catalog: CoreCatalog;
}

/** An opened file of a model, with a header that TypeScript has parsed, or read by the core. */
export type OpenedFile = PlainFile | CoreFile;

/** Returns whether a file was opened without a core: a plain safetensors file, or one that was packed from safetensors. */
export function isPlain(file: OpenedFile): file is PlainFile {
  return "header" in file;
}

/** Returns whether a file was packed from safetensors and opened without a core. */
export function isPackedFile(file: OpenedFile): file is PackedFile {
  return "packed" in file;
}
