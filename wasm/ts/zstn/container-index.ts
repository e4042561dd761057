/** Parses the index of a ZSTN file (docs/formats/z4ai-containers.md 2.2 and 2.7), like `core/src/container/zstn/index.rs`. */

import { ByteCursor, check } from "./byte-cursor.js";

const FRAME = 0;
const ALIAS = 1;

/** The length of the shortest record: an alias with an empty name, in bytes. */
const MIN_RECORD_BYTES = 23;

/** A record of the index, which describes one tensor. */
export interface IndexRecord {
  name: string;
  /** The range of the tensor in the original data; `end` is exclusive. */
  begin: number;
  end: number;
  /** The number of the record whose frame holds the tensor. Only an alias has the number of another record. */
  target: number;
  /** The range of the record's own frame in the file; `undefined` for an alias. */
  frame: { begin: number; end: number } | undefined;
}

/**
 * Parses the index. The frames must lie between `framesBegin` and `framesEnd`, and the tensors must fill `dataBytes`
 * bytes. Throws for an index that the core refuses.
 */
export function parseIndex(bytes: Uint8Array, framesBegin: number, framesEnd: number, dataBytes: number): IndexRecord[] {
  const cursor = new ByteCursor(bytes);
  const count = cursor.u32();
  check(count <= cursor.left / MIN_RECORD_BYTES);
  const records = Array.from({ length: count }, (_, number) => readRecord(cursor, number, framesBegin, framesEnd));
  check(cursor.left === 0);
  for (const { begin, end, target } of records) {
    const owner = records[target];
    check(owner?.frame !== undefined && owner.end - owner.begin === end - begin);
  }
  let covered = 0;
  for (const { begin, end } of inOrder(records)) {
    check(begin === covered && end >= begin);
    covered = end;
  }
  check(covered === dataBytes);
  return records;
}

function readRecord(cursor: ByteCursor, number: number, framesBegin: number, framesEnd: number): IndexRecord {
  const name = cursor.text(cursor.u16());
  const [begin, end, kind] = [cursor.u64(), cursor.u64(), cursor.u8()];
  if (kind === ALIAS) return { name, begin, end, target: cursor.u32(), frame: undefined };
  check(kind === FRAME);
  const [offset, length] = [cursor.u64(), cursor.u64()];
  check(length > 0 && offset >= framesBegin && offset + length <= framesEnd);
  return { name, begin, end, target: number, frame: { begin: offset, end: offset + length } };
}

/** Returns the end of the last frame. Throws if a byte between `begin` and that end belongs to no frame. */
export function endOfFrames(records: readonly IndexRecord[], begin: number): number {
  let covered = begin;
  for (const frame of inOrder(records.flatMap(({ frame }) => frame ?? []))) {
    check(frame.begin <= covered);
    covered = Math.max(covered, frame.end);
  }
  return covered;
}

/** Returns ranges sorted by their begin, then by their end. Equal ranges keep their order. */
export function inOrder<T extends { begin: number; end: number }>(ranges: readonly T[]): T[] {
  return [...ranges].sort((a, b) => a.begin - b.begin || a.end - b.end);
}
