/** Parts of a tensor that are read by themselves, and the plan for reading them. */

import type { StoredPart, TensorInfo } from "./tensor.js";

/** A range of rows, which are slices along the outermost dimension: the first row, and the row to stop before. */
export type RowRange = readonly [begin: number, end: number] | readonly number[];

/**
 * The selected indices of one axis: `[begin, end]` with an exclusive end, where `null` leaves a bound open; `null` for
 * all indices; or one index.
 */
export type AxisSelection = number | null | readonly [begin: number | null, end: number | null] | readonly (number | null)[];

/** A range of the bytes of a decoded tensor; `end` is exclusive. */
export type ByteSpan = readonly [begin: number, end: number];

/** The bytes that reading a tensor, or a part of it, will fetch. */
export interface ReadPlan {
  /** True if all stored bytes of the tensor are fetched. Also true for a part of a tensor that is not stored in blocks. */
  readonly whole: boolean;
  /** The number of bytes to fetch, excluding the bytes of a delta's base. */
  readonly bytes: number;
  /** The ranges to fetch. */
  readonly parts: readonly StoredPart[];
}

/** The operations of a model that plan the reads of a part of one of its tensors. */
export interface PartPlanner {
  /**
   * Returns the number of bytes that are decoded together around `position`, a position in the tensor in bytes. Resolves
   * to 0 for a tensor that is not stored in blocks, and to `undefined` for one that can only be read as a whole.
   */
  bandBytes(position: number): Promise<number | undefined>;
}

/** The operations of a model that read a part of one of its tensors. */
export interface PartReader extends PartPlanner {
  /** Reads and decodes bytes of the tensor. */
  read(span: ByteSpan): Promise<Uint8Array<ArrayBuffer>>;
}

/** A part of a tensor. */
export interface Part {
  /** The description of the part, as a tensor of its own without stored bytes. */
  readonly info: TensorInfo;
  /** Returns ranges that contain the part, with the gaps that are read along; `undefined` if the whole tensor has to be read. */
  spans(reader: PartPlanner): Promise<Iterable<ByteSpan> | undefined>;
  /** Reads the part, into `into` if it is given and the part is not adjacent in the tensor. */
  read(reader: PartReader, into: Uint8Array<ArrayBuffer> | undefined): Promise<Uint8Array<ArrayBuffer>>;
}

/** Returns a part whose bytes are adjacent in the tensor. */
export function adjacentPart(info: TensorInfo, span: ByteSpan): Part {
  return { info: { ...info, byteLength: span[1] - span[0], storedLength: 0 }, spans: async () => [span], read: (reader) => reader.read(span) };
}

/**
 * Returns the part of a tensor that the options of a read select; `undefined` for the whole tensor. Throws an
 * `InvalidInputError` if the tensor does not have this part, or it does not begin and end on a byte.
 */
export async function partOf(info: TensorInfo, rows: RowRange | undefined, select: readonly AxisSelection[] | undefined): Promise<Part | undefined> {
  if (select === undefined && rows === undefined) return undefined;
  const part = select === undefined ? rowsOf(info, rows!) : undefined;
  return part ?? (await import("./selection.js")).selected(info, select, rows);
}

/** Returns a range of rows; `undefined` if the tensor does not have these rows, or they do not begin and end on a byte. */
function rowsOf(info: TensorInfo, rows: RowRange): Part | undefined {
  if (!Array.isArray(rows) || rows.length !== 2) return undefined;
  const [begin, end] = rows as [number, number];
  const [count, ...rest] = info.shape;
  // A row is a whole number of bits, so that the quotient is exact.
  const rowBytes = begin < end ? info.byteLength / count! : 0;
  const span = [begin * rowBytes, end * rowBytes] as const;
  if (begin >= 0 && begin <= end && end <= count! && [begin, end, ...span].every(Number.isInteger)) return adjacentPart({ ...info, shape: [end - begin, ...rest] }, span);
  return undefined;
}
