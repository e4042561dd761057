/** A file of a model whose tensors are known. */

import type { CoreCatalog, CoreInstance } from "./core.js";
import type { Header } from "./safetensors/header.js";
import type { Source } from "./source/source.js";

/** What has been read of a file, from which another core can make its catalog again. */
export interface ReadFile {
  source: Source;
  sizeBytes: number;
  /** The first bytes. */
  head: Uint8Array;
  /** What was read after them. */
  supplied: Supplied[];
}

/** Bytes of a file, and their position. */
export interface Supplied {
  offset: number;
  bytes: Uint8Array;
}

/** A plain safetensors file. */
export interface PlainFile extends ReadFile {
  header: Header;
  /** Where the data begin, in bytes. */
  dataBegin: number;
}

/** A file that the WebAssembly core reads. */
export interface CoreFile extends ReadFile {
  /** The core that made the catalog. No other core can use it. */
  core: CoreInstance;
  catalog: CoreCatalog;
}

/** An opened file of a model. */
export type OpenedFile = PlainFile | CoreFile;

/** Returns whether a file was opened without a core. */
export function isPlain(file: OpenedFile): file is PlainFile {
  return "header" in file;
}
