/** Which reads become one request: arithmetic only. */

/** A part of a file, in bytes; `end` is excluded. */
export interface Span {
  begin: number;
  end: number;
}

/** Spans to be read as one, with everything between them. */
export interface Group<T extends Span> extends Span {
  members: T[];
}

/** `spans` in groups, in the order of the file: gaps in a group are at most `gapBytes`, groups of several at most `groupBytes` long. */
export function grouped<T extends Span>(spans: readonly T[], gapBytes: number, groupBytes: number): Group<T>[] {
  const groups: Group<T>[] = [];
  // Of spans that begin alike the longest comes first, and the others are parts of it.
  for (const span of spans.toSorted((a, b) => a.begin - b.begin || b.end - a.end)) {
    const last = groups.at(-1);
    if (last && (span.end <= last.end || (span.begin - last.end <= gapBytes && span.end - last.begin <= groupBytes))) {
      last.members.push(span);
      last.end = Math.max(last.end, span.end);
    } else {
      groups.push({ begin: span.begin, end: span.end, members: [span] });
    }
  }
  return groups;
}
