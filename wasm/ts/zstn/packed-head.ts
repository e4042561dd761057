/** Lists the tensors of a ZSTN file from its header, its index and its integrity section, and checks all three. */

import { parseHeader } from "../safetensors/header.js";
import type { Header, HeaderTensor } from "../safetensors/header.js";
import { ByteCursor, check } from "./byte-cursor.js";
import { endOfFrames, parseIndex } from "./container-index.js";
import type { IndexRecord } from "./container-index.js";
import { BEFORE_HEADER_BYTES, joined } from "./fetched-ends.js";
import type { FetchedEnds } from "./fetched-ends.js";
import { ENTRY_BYTES } from "./section.js";
import type { Section } from "./section.js";
import { xxh3 } from "./xxh3.js";

/** A range of the file, in bytes; `end` is exclusive. */
export interface FileRange {
  begin: number;
  end: number;
}

/** The parsed head of a packed file. */
export interface PackedHead {
  /** The records of the index, one for each tensor. */
  readonly records: readonly IndexRecord[];
  /** The number of each record's entry in the integrity section. An alias has the entry of its target. */
  readonly entries: readonly number[];
  /** The records of the integrity section; empty if the file has none. */
  readonly section: Section;
  /** The block table of each entry; empty if the file has no tables. */
  readonly tables: readonly FileRange[];
  /** The offset in the file at which the statistics of bands end. */
  readonly bandsEnd: number;
  /** The first bytes of the file that was packed: the length of its header, and the header. */
  readonly originalHead: Uint8Array<ArrayBuffer>;
  /** The length of the file that was packed, in bytes. */
  readonly originalBytes: number;
  /** The bytes that have been read. */
  readonly fetched: FetchedEnds;
}

/**
 * Lists the tensors, in the order of the index, from the bytes of a file before its frames (`prefix`) and from its end.
 * Throws for a file that the core refuses, like `ContainerTail::parse`.
 */
export function listTensors(fetched: FetchedEnds, prefix: Uint8Array): { packed: PackedHead; header: Header } {
  const headerEnd = prefix.byteLength - 8;
  const dataBytes = new ByteCursor(prefix, headerEnd).u64();
  const [indexBegin, indexEnd] = fetched.index();
  const indexBytes = fetched.part(indexBegin, indexEnd)!;
  const found = fetched.section();
  check(found !== undefined || !fetched.hasSection);
  const section: Section = found ?? new Map();
  const checksums = section.get("HEAD");
  if (checksums) {
    const cursor = new ByteCursor(checksums);
    check(cursor.bits64() === xxh3(prefix) && cursor.bits64() === xxh3(indexBytes));
  }
  const records = parseIndex(indexBytes, prefix.byteLength, indexBegin, dataBytes);
  const framesEnd = endOfFrames(records, prefix.byteLength);
  const originalBytes = dataBytes + headerEnd - BEFORE_HEADER_BYTES + 8;
  const place = attach(section, records, framesEnd, indexBegin, originalBytes);
  const header = parseHeader(prefix.subarray(BEFORE_HEADER_BYTES, headerEnd), dataBytes);
  check(header.refused.size === 0);
  const tensors = agree(records, header.tensors);
  const originalHead = new Uint8Array(prefix.subarray(BEFORE_HEADER_BYTES - 8, headerEnd));
  return { packed: { ...place, records, section, originalHead, originalBytes, fetched }, header: { ...header, tensors } };
}

/** Compares the section with the index, and finds the block tables and the statistics of bands, which precede the index. */
function attach(section: Section, records: readonly IndexRecord[], framesEnd: number, indexBegin: number, originalBytes: number): Pick<PackedHead, "entries" | "tables" | "bandsEnd"> {
  let frames = 0;
  const numbers = records.map(({ frame }) => (frame ? frames++ : frames));
  const entries = records.map(({ target }) => numbers[target]!);
  for (const [tag, bytes] of Object.entries(ENTRY_BYTES)) check((section.get(tag)?.byteLength ?? frames * bytes) === frames * bytes);
  const file = section.get("FILE");
  if (file) check(new ByteCursor(file).u64() === originalBytes);
  const cursor = new ByteCursor(section.get("BLKS") ?? new Uint8Array(0));
  const lengths = Array.from({ length: cursor.left / ENTRY_BYTES.BLKS }, () => cursor.u32());
  const bandsEnd = indexBegin - lengths.reduce((sum, length) => sum + length, 0);
  check(bandsEnd >= framesEnd && (section.has("STAT") || bandsEnd === framesEnd));
  let begin = bandsEnd;
  const tables = lengths.map((length) => ({ begin, end: (begin += length) }));
  return { entries, tables, bandsEnd };
}

/** Returns the tensors of the header in the order of the index. Throws unless both list the same ones. */
function agree(records: readonly IndexRecord[], tensors: readonly HeaderTensor[]): HeaderTensor[] {
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  const found = records.map(({ name, begin, end }) => {
    const tensor = byName.get(name);
    check(tensor !== undefined && byName.delete(name) && tensor.begin === begin && tensor.end === end);
    return tensor;
  });
  check(byName.size === 0);
  return found;
}

/**
 * Returns the copy of the header in the section; `undefined` if the header itself has been read. Throws if the section has
 * no checksum to compare it with.
 */
export function headerCopy(fetched: FetchedEnds): Uint8Array | undefined {
  if (!fetched.isHeaderMissing) return undefined;
  const section = fetched.section();
  const copy = section?.get("JSON");
  check(copy !== undefined && section!.has("FILE") && section!.has("HEAD"));
  return copy;
}

/** Returns the bytes before the frames of a file whose header is `header`, the decoded copy. */
export function prefixOf(fetched: FetchedEnds, header: Uint8Array): Uint8Array {
  const dataBytes = new ByteCursor(fetched.section()!.get("FILE")!).u64() - header.byteLength - 8;
  const end = new Uint8Array(8);
  new DataView(end.buffer).setBigUint64(0, BigInt(Math.max(dataBytes, 0)), true);
  check(header.byteLength === fetched.headerBytes);
  return joined(joined(fetched.head.subarray(0, BEFORE_HEADER_BYTES), header), end);
}
