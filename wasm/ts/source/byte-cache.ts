/** Where bytes are kept that were read once. */

/** A cache for `open(…, { cache })`; `memoryCache`, `opfsCache` and `folderCache` make them, and one of your own will do. */
export interface ByteCache {
  /**
   * Whether it outlives the program, or anyone else puts bytes into it. It is then used for files whose server sends a
   * strong ETag only, because nothing else tells two versions of a file apart for good.
   */
  readonly persistent: boolean;
  /** The `length` bytes at position `offset` (both in bytes) of the file that `key` stands for; `undefined` if they are not there. */
  get(key: string, offset: number, length: number): Promise<Uint8Array | undefined>;
  /** Keeps bytes, or does not. Resolves once there is room for more to be put. Nobody changes the bytes afterwards. */
  put(key: string, offset: number, bytes: Uint8Array): Promise<void>;
}
