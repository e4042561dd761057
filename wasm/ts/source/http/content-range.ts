/** Parses the Content-Range header of HTTP (RFC 9110, section 14.4). */

/** A parsed header `bytes FIRST-LAST/SIZE`. If a range cannot be served, the header has an asterisk instead of the range. */
export interface ContentRange {
  /** The positions of the first and the last byte sent, both inclusive. Absent if the header has an asterisk instead. */
  sent?: { first: number; last: number };
  /** Size of the whole file, in bytes. Absent if the server sends an asterisk instead. */
  sizeBytes?: number;
}

/** Parses the header; `undefined` if it is not a single byte range within its file. */
export function parseContentRange(header: string): ContentRange | undefined {
  const match = /^\s*bytes\s+(?:(\d+)-(\d+)|\*)\/(\d+|\*)\s*$/i.exec(header);
  if (!match) return undefined;
  const [, first, last, size] = match;
  const range: ContentRange = {};
  if (first !== undefined && last !== undefined) range.sent = { first: Number(first), last: Number(last) };
  if (size !== undefined && size !== "*") range.sizeBytes = Number(size);
  const numbers = [range.sent?.first ?? 0, range.sent?.last ?? 0, range.sizeBytes ?? 0];
  if (!numbers.every(Number.isSafeInteger)) return undefined;
  if (range.sent && range.sent.first > range.sent.last) return undefined;
  if (range.sent && range.sizeBytes !== undefined && range.sent.last >= range.sizeBytes) return undefined;
  return range;
}
