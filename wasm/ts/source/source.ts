/** The interface of everything that bytes are read from. Caches, retries and counters wrap any implementation. */

/** Options of one read besides its range. */
export interface ReadOptions {
  /** Stops the read, which then rejects with the reason of the signal. */
  signal?: AbortSignal;
  /** Called with the number of new bytes as they arrive. A source that gets all bytes at once need not call it. */
  onBytes?: (bytes: number) => void;
  /** Called with the number of bytes to come where it differs from the length asked for: when a file has to be read whole. */
  onTotal?: (bytes: number) => void;
  /** @internal Called with the error for an answer of another version, whose bytes are then returned: the caller compares all of them with checksums. Without it the read fails. */
  onOtherVersion?: (error: Error) => void;
}

/** A file that is read by ranges. Pass your own implementation to `open` to read from anywhere. */
export interface Source {
  /** Returns the length of the file, in bytes. Called once, before anything is read. */
  size(options?: ReadOptions): Promise<number> | number;
  /**
   * Returns exactly `length` bytes from position `offset` on (both in bytes). The range is always within the file and
   * never empty. Several reads may run at the same time. The caller does not change the bytes.
   */
  read(offset: number, length: number, options?: ReadOptions): Promise<Uint8Array>;
  /** @internal Identifies this version of the file, where something does. */
  readonly version?: string | undefined;
}
