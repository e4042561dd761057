/** The TypeScript interface of the WebAssembly core for reading. */

import type { Instance } from "./instance.js";
import type { WasmModule } from "./wasm-input.js";
import type { ModelKind } from "./model-kind.js";

/** Recognises a file from its first bytes and lists the further ranges that it needs. The caller does all I/O. */
export interface CoreOpening {
  /** Returns the missing ranges, [offset, length, offset, length, …]; empty once `finish` can be called. */
  needs(): Float64Array;
  supply(offset: number, bytes: Uint8Array): void;
  /** Returns the catalog. Consumes the opening. */
  finish(): CoreCatalog;
  free(): void;
}

/** The contents of a recognised file. */
export interface CoreCatalog {
  /** Returns whether the model's `config.json` may describe its tensors. */
  wantsConfig(): boolean;
  /** Returns whether checksums cover all the bytes that opening and decoding the file read. */
  isCovered(): boolean;
  /**
   * Returns the format of the file that a ZSTN file restores, or `bytes`, if that is no safetensors file.
   */
  originalKind(): string | undefined;
  /** Returns whether the catalog lists all tensors of the file that a ZSTN file restores. */
  isOriginalComplete(): boolean;
  /** Returns whether a tensor of the catalog is only a part of an entry. */
  hasPartsOfEntries(): boolean;
  /** Returns the catalog of the entries of a ZSTN file, which fill the file that it restores. */
  entries(): CoreCatalog;
  /** Returns the virtual header with which the file is packed. */
  virtualHeader(): CoreVirtualHeader;
  /** Takes the metadata of the catalog of the file that a ZSTN file restores. Consumes that catalog. */
  takeMetadata(original: CoreCatalog): void;
  /** Returns the paths of the other files with values of an ONNX model. */
  externalFiles(): string[];
  /** Returns the catalog of the values in another file. */
  external(number: number, sizeBytes: number): CoreCatalog;
  /**
   * Returns the names of the other GGUF files of the model, if this is the first of several and called `name`.
   */
  furtherGgufFiles(name: string): string[];
  /** Returns the number of tensors. Throws if the file is not the one of several GGUF files that its name states. */
  checkGgufPart(name: string): number;
  /** Throws if the files of the model do not have as many tensors together as this one, the first, states. */
  checkGgufTotal(tensors: number): void;
  /** Makes the tensors with values in the files of these numbers unreadable. */
  refuseExternal(numbers: Uint32Array, reason: string): void;
  free(): void;
}

/**
 * The virtual header of a file: the file's format or `bytes`, the JSON of the header, and how its entries are coded, as
 * `CorePacking.describe` takes it.
 */
export type CoreVirtualHeader = [kind: string, header: Uint8Array<ArrayBuffer>, codings: Float64Array];

/** The parsed index of a checkpoint in several files. */
export interface CoreShardIndex {
  free(): void;
}

/** A model that is being built from its files. The caller does all I/O. */
export interface CoreAssembly {
  /** Returns the missing ranges, [file, offset, length, …]; empty once `finish` can be called. */
  needs(): Float64Array;
  supply(file: number, offset: number, bytes: Uint8Array): void;
  /**
   * Returns the model. Consumes the assembly. With `full`, the model also compares the digests of the tensors that it
   * decodes.
   */
  finish(full: boolean): CoreModel;
  free(): void;
}

/** The tensors of a model, across all its files, and the places where they are stored. */
export interface ModelLayout {
  /** Returns whether the model is a delta. */
  needsBase(): boolean;
  /** Returns whether the stored bytes are the tensor itself, so that there is nothing to decode or verify. */
  isPlain(index: number): boolean;
  /** Returns the layout of the model as one safetensors file. Throws if that is not possible. */
  unpacked(): CoreUnpacked;
  free(): void;
}

/** A model in the WebAssembly core. */
export interface CoreModel extends ModelLayout {
  /**
   * Returns the range of the block table that `part` and `planeSizes` need, [file, offset, length]; empty if they need
   * none.
   */
  blockTable(index: number): Float64Array;
  /**
   * Returns a longer range to read if `table` is too short; empty if it is long enough.
   */
  longerTable(index: number, table: Uint8Array): Float64Array;
  /** Returns a plan for bytes `start` to `end` (exclusive) of a tensor. */
  part(index: number, start: number, end: number, table?: Uint8Array): CorePart;
  /**
   * Returns one line for each plane, with tabs between its name, its coding method, and its decoded and stored lengths
   * in bytes; `undefined` for tensors without a block table.
   */
  planeSizes(index: number, table?: Uint8Array): string | undefined;
  /**
   * Returns the range of the original that holds the values of a tensor, [offset, length], if they are only a part of an
   * entry; otherwise empty.
   */
  partOfEntry(index: number): Float64Array;
  /** Returns the raw bytes of a tensor from the bytes of the range that `partOfEntry` has returned. */
  valuesOfPart(index: number, bytes: Uint8Array): Uint8Array<ArrayBuffer>;
  /** Returns the description of the model, in the encoding that `wasm/src/description.rs` documents. */
  describe(): [kind: ModelKind, originalBytes: number, text: string, numbers: Float64Array, refused: unknown[]];
  /**
   * Decodes the stored bytes of all parts to the raw little-endian bytes of the tensor. Writes them to `into` if it is
   * given, otherwise to a new array.
   */
  decode(index: number, parts: Uint8Array[], base?: Uint8Array, into?: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>;
  /**
   * Returns the statistics record of a file, followed by 8 bytes with the offset in the file at which the figures of
   * its bands end; `undefined` if the file has no statistics.
   */
  statistics(file: number): Uint8Array | undefined;
  /** Returns the short digests of all tensors, concatenated: 16 bytes for each tensor, zeros if its file has no digest. */
  digests(): Uint8Array;
  /** Returns the serialised task with which another instance decodes this tensor: the first argument of `CoreDecode`. */
  task(index: number): Uint8Array<ArrayBuffer>;
  /** Returns the compiled module that this instance runs. */
  module(): WasmModule;
  /**
   * Returns the serialised task with which the modules `reader` and `gpu` decode this tensor; `undefined` if they cannot
   * decode it, or may not because its digest has to be compared.
   */
  frameTask(index: number): Uint8Array | undefined;
  /**
   * Returns the format of the file that a delta restores, if that is no safetensors file.
   */
  restoredKind(): string | undefined;
  /** Returns the catalog of the bytes that such a delta refers to in the base's file. Throws for another base. */
  referencedBase(sizeBytes: number): CoreCatalog | undefined;
  /** Returns the number of checkpoints that the base of the delta is computed from; 0 if it is a checkpoint itself. */
  sourceCount(): number;
  /**
   * Returns the base of the delta in a file, computed from safetensors files with these heads, which end where the data
   * begin, and these lengths; `undefined` for a file whose base is not computed. Throws for other checkpoints.
   */
  computedBase(file: number, heads: Uint8Array[], sizesBytes: Float64Array): CoreComputedBase | undefined;
  /** Throws if the delta was made against another base. Otherwise retains the tensor digests recorded in `base`. */
  checkBase(base: CoreModel): void;
  /** Returns the name of the base's tensor that a tensor depends on, once `checkBase` has accepted the base. */
  nameInBase(index: number): string | undefined;
}

/** The layout of a safetensors file that is not stored anywhere. */
export interface CoreLayout {
  /** Returns the bytes of the file before its data, in a new array. */
  head(): Uint8Array<ArrayBuffer>;
  /** Length of the file, in bytes. */
  sizeBytes(): number;
  /**
   * Returns the tensors that overlap bytes `begin` to `end` of the file, as [index, begin, end, …] with the overlap in
   * bytes of the tensor.
   */
  tensors(begin: number, end: number): Float64Array;
}

/** The layout of a model as one safetensors file. The caller reads and decodes the tensors. */
export interface CoreUnpacked extends CoreLayout {
  /** Returns whether the file is byte for byte the one that was packed. */
  isOriginal(): boolean;
  free(): void;
}

/** The safetensors file of a base that is computed from other checkpoints. The caller reads these. */
export interface CoreComputedBase extends CoreLayout {
  /**
   * Extends bytes `begin` to `end` of a tensor to whole elements. Returns the extended range, and where the same elements
   * are in each checkpoint, as [begin, end, checkpoint, offset, length, …].
   */
  places(tensor: number, begin: number, end: number): Float64Array;
  /** Computes some elements of a tensor, `lengthBytes` in total. `parts` are the bytes of the same elements in each of its places. */
  compute(tensor: number, parts: Uint8Array[], lengthBytes: number): Uint8Array<ArrayBuffer>;
  free(): void;
}

/** Decodes a tensor of a model that lives in another instance of the same module. */
export type CoreDecode = (task: Uint8Array, parts: Uint8Array[], base?: Uint8Array) => Uint8Array<ArrayBuffer>;

/** A plan for reading a range of the bytes of a tensor. The caller does all I/O. */
export interface CorePart {
  /** Returns whether the whole tensor has to be read and decoded, from which the caller takes the range. */
  isWhole(): boolean;
  /** Returns the ranges to fetch, [file, offset, length, …]. */
  ranges(): Float64Array;
  /** Returns the number of bytes of the tensor that are decoded together; 0 if it is not stored in blocks. */
  bandBytes(): number;
  /**
  /** Returns the range of the base's tensor that decoding needs, [start, end] in bytes; empty if decoding needs none. */
  base(): Float64Array;
  /** Returns the raw bytes of the range, decoded from the bytes of `ranges` and `base`. */
  decode(parts: Uint8Array[], base?: Uint8Array): Uint8Array<ArrayBuffer>;
  free(): void;
}

/** The classes and functions that a WebAssembly module of the core exports. */
export interface Core {
  readonly Opening: {
    /** Starts to open a file. Its name may determine its format. */
    named(name: string, sizeBytes: number, head: Uint8Array): CoreOpening;
  };
  readonly ShardIndex: new (json: Uint8Array) => CoreShardIndex;
  /** The class of models that are being built. Its constructor consumes the catalogs and the index. */
  readonly Assembly: new (files: CoreCatalog[], shards: CoreShardIndex | undefined, config: Uint8Array | undefined) => CoreAssembly;
  readonly decode: CoreDecode;
  /**
   * Returns whether a file with this name and these first bytes is packed with a virtual header. Throws for a file of
   * another format that is called `.safetensors`.
   */
  readonly isOtherFormat: (name: string, sizeBytes: number, head: Uint8Array) => boolean;
  /** Returns the virtual header of a file whose tensors are not known. */
  readonly virtualHeaderOfBytes: (sizeBytes: number) => CoreVirtualHeader;
}

/** A core that is loaded and running. */
export type CoreInstance = Instance<Core>;

/** The instance that a model belongs to: a running core, or for plain files a placeholder that cannot trap. */
export type ModelInstance = Instance<unknown>;
