/** Computes which reads become one request, without any I/O. */

/** A range of a file, in bytes; `end` is exclusive. */
export interface Span {
  begin: number;
  end: number;
}

/** A span that covers several reads and the gaps between them. */
export interface MergedRange<T extends Span> extends Span {
  reads: T[];
}

/**
 * Merges `spans` and returns the merged ranges in file order. A gap within a range is at most `maxGapBytes` long, and a
 * range of several reads at most `maxMergedBytes`.
 */
export function mergeRanges<T extends Span>(spans: readonly T[], maxGapBytes: number, maxMergedBytes: number): MergedRange<T>[] {
  const merged: MergedRange<T>[] = [];
  // Among spans with the same beginning, the longest comes first, so that it contains the others.
  for (const span of spans.toSorted((a, b) => a.begin - b.begin || b.end - a.end)) {
    const last = merged.at(-1);
    if (last && (span.end <= last.end || (span.begin - last.end <= maxGapBytes && span.end - last.begin <= maxMergedBytes))) {
      last.reads.push(span);
      last.end = Math.max(last.end, span.end);
    } else {
      merged.push({ begin: span.begin, end: span.end, reads: [span] });
    }
  }
  return merged;
}
