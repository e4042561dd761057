/**
 * Packed files on servers that answer for one address and give one file different validators (`ETag`, `Last-Modified`).
 *
 * Their answers may be used where checksums decide, and no bytes of two versions of the file are ever put together:
 * - The catalog of a mixture is only used if it `isCovered`: header and index then have the checksums in the integrity
 *   section, and the section has its own, so that all three belong together, whichever answers they came in.
 * - Every tensor read by that catalog has its checksum in that section, which the core compares with the stored bytes.
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

  /** The error for an answer of another version; `undefined` if there was none. */
  get change(): Error | undefined {
    return this.#change;
  }

  get version(): string | undefined {
    return this.#source.version;
  }

  /** The same file for reads of bytes that nothing compares. */
  get uncompared(): Source {
    return {
      size: (options) => this.#source.size(options),
      // Reads that may be merged all have the same options.
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

/** Returns sources for reads of bytes that nothing compares. */
export function uncompared(sources: readonly Source[]): Source[] {
  return sources.map((source) => (source instanceof ComparedSource ? source.uncompared : source));
}

/** Returns the error for bytes of `sources` that do not have their checksums, if an answer was of another version. */
export function otherVersion(sources: readonly Source[]): Error | undefined {
  for (const source of sources) {
    const change = source instanceof ComparedSource ? source.change : undefined;
    if (change) return new SourceChangedError(`${change.message} The bytes do not have the checksums in the file.`);
  }
  return undefined;
}

/** Throws the error of decoding a tensor of a model with these sources, or the one that explains it. */
export function undecodable(error: unknown, sources: readonly Source[]): never {
  throw (hasCode<FormatError>(error, "malformed") && otherVersion(sources)) || error;
}
