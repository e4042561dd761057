/** Treemaps in reading order: strips of similar thickness, so that layers stay in the order of the file. */

export interface Rectangle {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** A division of items into strips, which can be used for several rectangles of about the same proportions. */
export interface Arrangement {
  /** True if the strips run from left to right. */
  readonly isWide: boolean;
  /** The index after the last item of each strip. */
  readonly ends: readonly number[];
}

/** The maximum number of strips. With more, each would be thinner than a label. */
const MAX_STRIPS = 24;

/**
 * Divides items into strips, in order: from the top, or from the left if the space is higher than wide. With `isEven`,
 * strips with equal numbers of items are preferred, so that equal items get rectangles of equal proportions.
 */
export function arrange(sizes: readonly number[], { width, height }: Pick<Rectangle, "width" | "height">, isEven = false): Arrangement {
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const isWide = width >= height;
  if (!(total > 0) || !(width > 0) || !(height > 0)) return { isWide, ends: [sizes.length] };
  const along = isWide ? width : height;
  const areas = sizes.map((size) => (size / total) * width * height);
  let best: number[] = [areas.length];
  let least = Number.POSITIVE_INFINITY;
  for (let count = 1; count <= Math.min(MAX_STRIPS, areas.length); count++) {
    const ends = endsOf(areas, count, width * height);
    const ratio = meanRatio(areas, ends, along) * (isEven ? unevenness(ends) : 1);
    if (ratio < least) [best, least] = [ends, ratio];
  }
  return { isWide, ends: best };
}

/** Returns a rectangle for each of `sizes`, in the strips of an arrangement. Areas are proportional to sizes. */
export function placed(sizes: readonly number[], { isWide, ends }: Arrangement, { x, y, width, height }: Rectangle): Rectangle[] {
  const total = sizes.reduce((sum, size) => sum + size, 0);
  if (!(total > 0) || !(width > 0) || !(height > 0)) return sizes.map(() => ({ x, y, width: 0, height: 0 }));
  const [along, across] = isWide ? [width, height] : [height, width];
  const rectangles: Rectangle[] = [];
  let [begin, offset] = [0, 0];
  for (const end of ends) {
    let strip = 0;
    for (let i = begin; i < end; i++) strip += sizes[i]!;
    const thick = (strip / total) * across;
    let at = 0;
    for (let i = begin; i < end; i++) {
      const long = strip > 0 ? (sizes[i]! / strip) * along : 0;
      rectangles.push(isWide ? { x: x + at, y: y + offset, width: long, height: thick } : { x: x + offset, y: y + at, width: thick, height: long });
      at += long;
    }
    offset += thick;
    begin = end;
  }
  return rectangles;
}

/** Divides areas into at most `count` strips of similar size. The middle of an area determines its strip. */
function endsOf(areas: readonly number[], count: number, total: number): number[] {
  const ends: number[] = [];
  let [begin, sum, strip] = [0, 0, 0];
  for (const [i, own] of areas.entries()) {
    const next = Math.min(count - 1, Math.floor(((sum + own / 2) / total) * count));
    if (next !== strip && i > begin) {
      ends.push(i);
      begin = i;
    }
    strip = next;
    sum += own;
  }
  return [...ends, areas.length];
}

/** Returns the mean aspect ratio of all rectangles, the longer side divided by the shorter. */
function meanRatio(areas: readonly number[], ends: readonly number[], along: number): number {
  let [sum, begin] = [0, 0];
  for (const end of ends) {
    let area = 0;
    for (let i = begin; i < end; i++) area += areas[i]!;
    const thick = area / along;
    for (let i = begin; i < end; i++) {
      const long = areas[i]! / thick;
      sum += long > 0 ? Math.max(long / thick, thick / long) : 1;
    }
    begin = end;
  }
  return sum / areas.length;
}

/** Returns the largest number of items in a strip, divided by the smallest. */
function unevenness(ends: readonly number[]): number {
  const counts = ends.map((end, i) => end - (ends[i - 1] ?? 0));
  return Math.max(...counts) / Math.min(...counts);
}
