/** The interface of caches of file ranges. */

/** A cache for `open(…, { cache })`. `memoryCache`, `opfsCache` and `folderCache` create caches; you can also pass your own. */
export interface ByteCache {
  /**
   * Whether entries outlive the program, or come from others. A persistent cache is used only for files whose server
   * sends a strong ETag, because nothing else tells two versions of a file apart for good.
   */
  readonly persistent: boolean;
  /** Returns the `length` bytes at position `offset` (both in bytes) of the file that `key` identifies; `undefined` if they are not cached. */
  get(key: string, offset: number, length: number): Promise<Uint8Array | undefined>;
  /** Stores bytes, or does not. Resolves when more can be put. Nobody changes the bytes afterwards. */
  put(key: string, offset: number, bytes: Uint8Array): Promise<void>;
}
