/** Reads little-endian integers and texts sequentially. Every read beyond the end throws. */

/** The error for bytes that the readers in this folder do not accept. It has no message, because the core explains them. */
export class Declined extends Error {}

/** Throws a `Declined` error unless `holds` is true. */
export function check(holds: boolean): asserts holds {
  if (!holds) throw new Declined();
}

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export class ByteCursor {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  /** The position of the next byte. */
  at: number;

  constructor(bytes: Uint8Array, at = 0) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.at = at;
  }

  /** The number of bytes that are left. */
  get left(): number {
    return this.#bytes.byteLength - this.at;
  }

  bytes(length: number): Uint8Array {
    check(length <= this.left);
    return this.#bytes.subarray(this.at, (this.at += length));
  }

  u8(): number {
    return this.#view.getUint8(this.#skip(1));
  }

  u16(): number {
    return this.#view.getUint16(this.#skip(2), true);
  }

  u32(): number {
    return this.#view.getUint32(this.#skip(4), true);
  }

  /** Reads an integer of 64 bits. Throws if it is above 2^53. */
  u64(): number {
    const number = Number(this.bits64());
    check(Number.isSafeInteger(number));
    return number;
  }

  bits64(): bigint {
    return this.#view.getBigUint64(this.#skip(8), true);
  }

  /** Reads a text of `length` bytes. Throws if it is not UTF-8. */
  text(length: number): string {
    return UTF8.decode(this.bytes(length));
  }

  #skip(length: number): number {
    this.at += length;
    return this.at - length;
  }
}
