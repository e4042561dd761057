/** The bytes of a ZSTN file that listing its tensors needs: from its first bytes, and from its end. */

import { ByteCursor, check } from "./byte-cursor.js";
import { parseSection } from "./section.js";
import type { Section } from "./section.js";

/** The length of the prefix without the header, and of its part before the header, in bytes. */
const PREFIX_BYTES = 22;
export const BEFORE_HEADER_BYTES = 14;
const FOOTER_BYTES = 20;
const MAGIC = "ZSTN";
/** The length of a section without the entries of its tensors, in bytes. */
const SECTION_FIXED_BYTES = 142;
/** The least number of bytes that are read from the end of the file. */
const TAIL_BYTES = 32768;

/** The positions of the layout flag and of the length of the header in the file. */
const FLAG_AT = 5;
const HEADER_LENGTH_AT = 6;
/** The bits of the layout flag: a copy of the header is announced; an integrity section is announced; the header is virtual. */
const HAS_COPY = 2;
const HAS_SECTION = 4;
const HAS_VIRTUAL_HEADER = 8;

type Range = { file: 0; offset: number; length: number };

/**
 * Computes the ranges to read, like `core/src/catalog/zstn.rs`, so that the core can use the same bytes if it has to open
 * the file. All methods throw for files that the core refuses.
 */
export class FetchedEnds {
  readonly sizeBytes: number;
  /** The length of the bytes before the frames. */
  readonly prefixBytes: number;
  /** Whether the layout flag announces an integrity section. */
  readonly hasSection: boolean;
  /** Whether the layout flag announces a copy of the header in the integrity section. */
  readonly mayHaveCopy: boolean;
  #head: Uint8Array;
  #tail: Uint8Array = new Uint8Array(0);
  #parsed: { section: Section | undefined } | undefined;

  constructor(sizeBytes: number, head: Uint8Array) {
    const flag = head[FLAG_AT]!;
    // A file that is one frame has no index. A virtual header describes a file of another format.
    check(flag > 0 && (flag & HAS_VIRTUAL_HEADER) === 0);
    this.sizeBytes = sizeBytes;
    this.prefixBytes = PREFIX_BYTES + new ByteCursor(head, HEADER_LENGTH_AT).u64();
    check(this.prefixBytes <= sizeBytes - FOOTER_BYTES - 4);
    this.mayHaveCopy = (flag & HAS_COPY) > 0;
    this.hasSection = (flag & HAS_SECTION) > 0;
    this.#head = head;
  }

  /** Returns the ranges that are missing; empty once the file can be listed. */
  needs(): Range[] {
    const { sizeBytes, prefixBytes } = this;
    const missing: Range[] = [];
    const add = (offset: number, end: number) => missing.push({ file: 0, offset, length: end - offset });
    const covered = Math.max(prefixBytes, this.#head.byteLength);
    const footer = this.part(this.#footerBegin, sizeBytes);
    if (!footer) {
      const half = Math.floor(prefixBytes / 2) + (this.mayHaveCopy ? Math.floor(prefixBytes / 8) : 0);
      const usual = prefixBytes + half + 24 + SECTION_FIXED_BYTES;
      add(Math.max(sizeBytes - Math.max(usual, TAIL_BYTES), covered), sizeBytes);
    } else {
      const [begin] = this.index();
      if (!this.part(begin, this.#footerBegin)) add(Math.max(begin, covered), this.#tailBegin);
    }
    // The end of the file shows whether it contains the copy.
    const isCopied = this.mayHaveCopy && (missing.length > 0 || this.section()?.has("JSON"));
    if (this.isHeaderMissing && !isCopied) add(this.#head.byteLength, prefixBytes);
    return missing;
  }

  /** Adds the bytes of a range that `needs` has returned. */
  supply(offset: number, bytes: Uint8Array): void {
    if (offset === this.#head.byteLength) this.#head = joined(this.#head, bytes);
    else this.#tail = joined(bytes, this.#tail);
  }

  /** The length of the header, in bytes. */
  get headerBytes(): number {
    return this.prefixBytes - PREFIX_BYTES;
  }

  /** Whether the header has not been read. */
  get isHeaderMissing(): boolean {
    return this.#head.byteLength < this.prefixBytes;
  }

  /** The first bytes of the file, which contain the length of the header. */
  get head(): Uint8Array {
    return this.#head;
  }

  /** Returns a range of the file; `undefined` if a byte of it has not been read. */
  part(begin: number, end: number): Uint8Array | undefined {
    if (end <= this.#head.byteLength) return this.#head.subarray(begin, end);
    const tailBegin = this.#tailBegin;
    if (begin >= tailBegin) return this.#tail.subarray(begin - tailBegin, end - tailBegin);
    if (this.#head.byteLength < tailBegin) return undefined;
    return joined(this.#head.subarray(begin), this.#tail.subarray(this.#head.byteLength - tailBegin, end - tailBegin));
  }

  /** Returns the range of the index in the file. Its footer must have been read. */
  index(): [begin: number, end: number] {
    const cursor = new ByteCursor(this.part(this.#footerBegin, this.sizeBytes)!);
    const [begin, length, magic] = [cursor.u64(), cursor.u64(), cursor.text(MAGIC.length)];
    check(magic === MAGIC && begin >= this.prefixBytes && begin + length <= this.#footerBegin);
    return [begin, begin + length];
  }

  /** Returns the integrity section, if the file has one. The end of the file must have been read. */
  section(): Section | undefined {
    return (this.#parsed ??= { section: parseSection(this.part(this.index()[1], this.#footerBegin)!) }).section;
  }

  get #footerBegin(): number {
    return this.sizeBytes - FOOTER_BYTES;
  }

  get #tailBegin(): number {
    return this.sizeBytes - this.#tail.byteLength;
  }
}

export function joined(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const both = new Uint8Array(a.byteLength + b.byteLength);
  both.set(a);
  both.set(b, a.byteLength);
  return both;
}
