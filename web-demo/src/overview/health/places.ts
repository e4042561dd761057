/** The rows where the stored statistics of bands locate a problem. */

import type { StoredFigures } from "../../engine/bands.js";
import { formatCount } from "../../page/format.js";
import type { Problem } from "./checks.js";

/** A range of rows; the end is exclusive. */
export type RowsRange = readonly [begin: number, end: number];

/** The maximum number of ranges that are named. */
const MAX_NAMED = 3;

/** Returns the ranges of rows with a problem, neighbours joined; `undefined` if they would be all rows or cannot be told. */
export function placesOf(problem: Problem, figures: StoredFigures | undefined, rows: number, columns: number): RowsRange[] | undefined {
  const { bandRows, bands, whole } = figures ?? {};
  if (bandRows === undefined || !bands || !whole) return undefined;
  const most = Math.max(-whole.min, whole.max);
  const ranges: [number, number][] = [];
  for (const [i, { count, nans, infinities, zeros, min, max }] of bands.entries()) {
    const isHere = problem === "nan" ? nans > 0 : problem === "infinite" ? infinities > 0 : problem === "outlier" ? Math.max(-min, max) === most : problem === "dead" && zeros >= Math.min(columns, count);
    if (!isHere) continue;
    const [begin, end] = [i * bandRows, Math.min(rows, (i + 1) * bandRows)];
    const last = ranges.at(-1);
    if (last?.[1] === begin) last[1] = end;
    else ranges.push([begin, end]);
  }
  const [first] = ranges;
  return !first || (first[0] === 0 && first[1] >= rows) ? undefined : ranges;
}

/** Formats ranges of rows: "row 17" only if a range has a single row, and "rows 0–255" otherwise. */
export function rangesText(ranges: readonly RowsRange[]): string {
  const named = ranges.slice(0, MAX_NAMED).map(([begin, end]) => (end === begin + 1 ? formatCount(begin) : `${formatCount(begin)}–${formatCount(end - 1)}`));
  const rest = ranges.length - named.length;
  const isOne = ranges.length === 1 && ranges[0]![1] === ranges[0]![0] + 1;
  return `${isOne ? "row" : "rows"} ${named.join(", ")}${rest > 0 ? ` and ${formatCount(rest)} more` : ""}`;
}

/** Joins consecutive rows to ranges. */
export function rangesOf(rows: readonly number[]): RowsRange[] {
  const ranges: [number, number][] = [];
  for (const row of rows) {
    const last = ranges.at(-1);
    if (last?.[1] === row) last[1] = row + 1;
    else ranges.push([row, row + 1]);
  }
  return ranges;
}
