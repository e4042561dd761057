/** Parses the `Range` header of a request (RFC 9110, section 14.2). */

/** Bytes `begin` to `end` (exclusive) of a file. */
export interface ByteRange {
  begin: number;
  end: number;
}

/**
 * Returns the requested range; `"whole"` if there is no header, or one that a server may ignore, such as several ranges
 * at once; `"unsatisfiable"` if the range is outside the file.
 */
export function requestedRange(header: string | null, sizeBytes: number): ByteRange | "whole" | "unsatisfiable" {
  const match = /^bytes=\s*(\d*)-(\d*)\s*$/i.exec(header ?? "");
  if (!match || (match[1] === "" && match[2] === "")) return "whole";
  const [first, last] = [match[1]!, match[2]!];
  if (first === "") {
    const lastBytes = Math.min(Number(last), sizeBytes);
    return lastBytes === 0 ? "unsatisfiable" : { begin: sizeBytes - lastBytes, end: sizeBytes };
  }
  if (last !== "" && Number(last) < Number(first)) return "whole";
  if (Number(first) >= sizeBytes) return "unsatisfiable";
  return { begin: Number(first), end: last === "" ? sizeBytes : Math.min(Number(last) + 1, sizeBytes) };
}
