/** Where bytes come from: two methods, so that caches, retries and counters can be wrapped around any of them. */

/** What a read may be given besides its range. */
export interface ReadOptions {
  /** Stops the read; it then rejects with the reason of the signal. */
  signal?: AbortSignal;
  /** Called with the number of new bytes as they arrive. A source that gets all at once need not call it. */
  onBytes?: (bytes: number) => void;
  /** Called with the number of bytes to come where that is not the length asked for: when a file has to be read whole. */
  onTotal?: (bytes: number) => void;
}

/** A file as `zstn` sees it. Give your own to `open` to read from anywhere. */
export interface Source {
  /** Length of the file, in bytes. Asked once, before anything is read. */
  size(options?: ReadOptions): Promise<number> | number;
  /**
   * Exactly `length` bytes from position `offset` on (both in bytes). The range always lies within the file
   * and is never empty. Reads may run side by side. The caller does not change the bytes it gets.
   */
  read(offset: number, length: number, options?: ReadOptions): Promise<Uint8Array>;
  /** @internal What tells this version of the file from all others, if there is such a thing. */
  readonly version?: string | undefined;
}
