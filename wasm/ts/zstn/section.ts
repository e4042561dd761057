/** Parses the integrity section of a ZSTN file (docs/formats/zstn-integrity.md 1 and 2), like `core/src/container/zstn/integrity`. */

import { ByteCursor, check } from "./byte-cursor.js";
import { xxh3 } from "./xxh3.js";

const MAGIC = "ZSTNINTG";
const VERSION = 1;
/** The length of the fields after the payload, and of the checksum at the end of the payload, in bytes. */
const TRAILER_BYTES = 16;
const CHECKSUM_BYTES = 8;

/** The length of the value of a record whose value has a fixed length, by its tag. */
const LENGTHS: Readonly<Record<string, number>> = { FILE: 40, CLMD: 0, HEAD: 16 };
/** The length of an entry of a record that has one for each frame, by its tag. */
export const ENTRY_BYTES = { FRMS: 8, TENS: 32, BLKS: 4 } as const;

/** The values of the records of a section, by tag. */
export type Section = ReadonlyMap<string, Uint8Array>;

/**
 * Parses the bytes between the index and the footer. Returns `undefined` if there are none. Throws for bytes that the
 * core refuses.
 */
export function parseSection(bytes: Uint8Array): Section | undefined {
  if (bytes.byteLength === 0) return undefined;
  const payloadBytes = bytes.byteLength - TRAILER_BYTES;
  check(payloadBytes >= 2 + CHECKSUM_BYTES);
  const trailer = new ByteCursor(bytes, payloadBytes);
  check(trailer.u64() === payloadBytes && trailer.text(MAGIC.length) === MAGIC);
  const covered = bytes.subarray(0, payloadBytes - CHECKSUM_BYTES);
  check(new ByteCursor(bytes, covered.byteLength).bits64() === xxh3(covered));
  const cursor = new ByteCursor(covered);
  check(cursor.u16() === VERSION);
  const section = new Map<string, Uint8Array>();
  while (cursor.left > 0) {
    const tag = String.fromCharCode(...cursor.bytes(4));
    const value = cursor.bytes(cursor.u64());
    const length = LENGTHS[tag];
    const entry = ENTRY_BYTES[tag as keyof typeof ENTRY_BYTES];
    check(length === undefined || value.byteLength === length);
    check(entry === undefined || value.byteLength % entry === 0);
    // Unknown records may be repeated.
    check(!section.has(tag) || !(length !== undefined || entry || tag === "JSON" || tag === "STAT"));
    section.set(tag, value);
  }
  return section;
}
