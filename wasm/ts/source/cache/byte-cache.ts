/** The interface of caches for file ranges. */

/**
 * A cache for `open(…, { cache })`. `memoryCache`, `opfsCache` and `folderCache` create caches; you can also implement
 * your own.
 */
export interface ByteCache {
  /**
   * True if entries outlive the program, or come from other programs. A persistent cache is used only for files whose
   * server sends a strong ETag, because nothing else distinguishes two versions of a file reliably.
   */
  readonly persistent: boolean;
  /**
   * Returns the `length` bytes from position `offset` on (both in bytes) of the file that `key` identifies; `undefined`
   * if they are not cached.
   */
  get(key: string, offset: number, length: number): Promise<Uint8Array | undefined>;
  /**
   * Stores the bytes of a file from position `offset` on. A cache may drop an entry silently, for example if storage
   * is full. Resolves when the cache can accept more. The bytes are not modified afterwards.
   */
  put(key: string, offset: number, bytes: Uint8Array): Promise<void>;
}
