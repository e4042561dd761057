/** The interface of all sources of bytes. Caches, retries and counters can wrap any implementation. */

import type { Pinned } from "./http/pinned.js";

/** Options of one read, in addition to its range. */
export interface ReadOptions {
  /** Aborts the read, which then rejects with the reason of the signal. */
  signal?: AbortSignal;
  /** Called with the number of new bytes as they arrive. A source that receives all bytes at once need not call it. */
  onBytes?: (bytes: number) => void;
  /**
   * Called with the number of bytes that will arrive, if a file has to be read whole and this number therefore differs
   * from the requested length.
   */
  onTotal?: (bytes: number) => void;
  /**
   * @internal Called with the error for a response of another version. Its bytes are then returned, and the caller must
   * compare all of them with checksums. Without this callback the read fails.
   */
  onOtherVersion?: (error: Error) => void;
}

/** A file that is read by ranges. Pass your own implementation to `open` to read from any storage. */
export interface Source {
  /** Returns the length of the file, in bytes. It is called once, before any read. */
  size(options?: ReadOptions): Promise<number> | number;
  /**
   * Returns exactly `length` bytes from position `offset` on (both in bytes). The range is always within the file and
   * never empty. Several reads may run concurrently. The caller does not modify the bytes.
   */
  read(offset: number, length: number, options?: ReadOptions): Promise<Uint8Array>;
  /**
   * The name of the file. Some formats are recognised by it, and the names of a model's other files follow from it, which
   * the option `siblings` finds.
   */
  readonly name?: string | undefined;
  /** @internal The version that is read from a web server, with which another source can continue. */
  readonly pinned?: Pinned | undefined;
}

/** A file of `byteLength` bytes that is read in slices, like an `ArrayBuffer`. */
export interface Sliceable {
  /** The length of the file, in bytes. */
  readonly byteLength: number;
  /** Returns the bytes from `start` to `end` (exclusive). The range is never empty. The caller does not modify the bytes. */
  slice(start: number, end: number): ArrayBuffer | Uint8Array | Promise<ArrayBuffer | Uint8Array>;
  /** The name of the file, as that of a `Source`. */
  readonly name?: string | undefined;
}
