/** The text of the read-out for a range of cells. */

import type { Area, Probe } from "../engine/protocol.js";
import { formatCount, formatValue } from "../page/format.js";

/**
 * Returns the position of the cells, and the value of a single cell or the mean and root mean square of several.
 * `found` is undefined while the values are unknown.
 */
export function cellsText({ rowBegin, rowEnd, columnBegin, columnEnd }: Area, found: Probe | undefined): string {
  const all = (rowEnd - rowBegin) * (columnEnd - columnBegin);
  const place = [range("row", rowBegin, rowEnd), range("col", columnBegin, columnEnd)];
  if (!found) return place.join(" · ");
  if (found.band) {
    const { rowBegin: begin, rowEnd: end, mean, rms, hasNonFinite } = found.band;
    const levels = Number.isFinite(rms) ? [`mean ${formatValue(mean, 3)}`, `RMS ${formatValue(rms, 3)}`] : [];
    return [range("row", begin, end), ...levels, ...(hasNonFinite ? ["has NaN or ∞"] : []), "from the file"].join(" · ");
  }
  return [...place, ...contents(found, all)].join(" · ");
}

function contents({ count, sum, squares }: Probe, all: number): string[] {
  if (count === 0) return ["not read"];
  if (all === 1) return [formatValue(sum)];
  const cells = count === all ? `${formatCount(all)} cells` : `${formatCount(count)} of ${formatCount(all)} cells read`;
  if (!Number.isFinite(squares)) return ["NaN or ∞", cells];
  return [`mean ${formatValue(sum / count, 3)}`, `RMS ${formatValue(Math.sqrt(squares / count), 3)}`, cells];
}

const range = (name: string, begin: number, end: number) => (end - begin === 1 ? `${name} ${formatCount(begin)}` : `${name}s ${formatCount(begin)}–${formatCount(end - 1)}`);
