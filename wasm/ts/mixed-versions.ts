/**
 * Sources for packed files whose address is served by several servers, which may send different validators (`ETag`,
 * `Last-Modified`) for the same file.
 *
 * Bytes from responses with different validators may be combined only if checksums verify the bytes:
 * - A catalog built from such bytes is only used if it `isCovered`: the integrity section then has checksums of the
 * header, of the index and of itself, which prove that the three belong together.
 * - Every tensor that is read through this catalog has a checksum in that section, which the core compares with the
 * stored bytes.
 * - All other reads of such a file fail.
 */

import { hasCode, SourceChangedError } from "./errors.js";
import type { FormatError } from "./errors.js";
import type { ReadOptions, Source } from "./source/source.js";

/** A source whose bytes the reader compares with checksums before it uses any of them. */
export class ComparedSource implements Source {
  readonly #source: Source;
  #change: Error | undefined;

  constructor(source: Source) {
    this.#source = source;
  }

  /** The error for a response of another version; `undefined` if there was none. */
  get change(): Error | undefined {
    return this.#change;
  }

  get pinned(): Source["pinned"] {
    return this.#source.pinned;
  }

  /**
   * The same file, for reads whose bytes are not compared with checksums. Such a read fails after a response of another
   * version.
   */
  get uncompared(): Source {
    return {
      size: (options) => this.#source.size(options),
      // Reads can only be merged if they all have the same options.
      read: async (offset, length, options) => {
        if (this.#change) throw this.#change;
        const bytes = await this.read(offset, length, options);
        if (this.#change) throw this.#change;
        return bytes;
      },
    };
  }

  size(options?: ReadOptions): Promise<number> | number {
    return this.#source.size(options);
  }

  read(offset: number, length: number, options?: ReadOptions): Promise<Uint8Array> {
    return this.#source.read(offset, length, { ...options, onOtherVersion: (error) => (this.#change ??= error) });
  }
}

/** Returns the sources for reads whose bytes are not compared with checksums. */
export function uncompared(sources: readonly Source[]): Source[] {
  return sources.map((source) => (source instanceof ComparedSource ? source.uncompared : source));
}

/**
 * Returns the error for bytes of `sources` that do not match their checksums, if a response was of another version;
 * `undefined` otherwise.
 */
export function otherVersion(sources: readonly Source[]): Error | undefined {
  for (const source of sources) {
    const change = source instanceof ComparedSource ? source.change : undefined;
    if (change) return new SourceChangedError(`${change.message} The bytes do not have the checksums in the file.`);
  }
  return undefined;
}

/**
 * Rethrows the error of decoding a tensor from these sources. If bytes of another version of a file explain the error,
 * throws a `SourceChangedError` instead.
 */
export function undecodable(error: unknown, sources: readonly Source[]): never {
  throw (hasCode<FormatError>(error, "malformed") && otherVersion(sources)) || error;
}
