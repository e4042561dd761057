/** Treemaps in reading order: strips of similar thickness, so that layers stay in the order of the file. */

export interface Rectangle {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** The maximum number of strips. With more, each would be thinner than a label. */
const MAX_STRIPS = 24;

/**
 * Returns a rectangle for each of `sizes`, in order: in strips from the top, or from the left if the space is higher
 * than wide.
 */
export function orderedLayout(sizes: readonly number[], { x, y, width, height }: Rectangle): Rectangle[] {
  const total = sizes.reduce((sum, size) => sum + size, 0);
  if (!(total > 0) || !(width > 0) || !(height > 0)) return sizes.map(() => ({ x, y, width: 0, height: 0 }));
  const isWide = width >= height;
  const [along, across] = isWide ? [width, height] : [height, width];
  const areas = sizes.map((size) => (size / total) * along * across);
  let best: Strip[] = [];
  let least = Number.POSITIVE_INFINITY;
  for (let count = 1; count <= Math.min(MAX_STRIPS, areas.length); count++) {
    const strips = stripsOf(areas, count, along * across);
    const ratio = meanRatio(areas, strips, along);
    if (ratio < least) [best, least] = [strips, ratio];
  }
  const placed: Rectangle[] = [];
  let offset = 0;
  for (const { begin, end, area } of best) {
    const thick = area / along;
    let at = 0;
    for (let i = begin; i < end; i++) {
      const long = thick > 0 ? areas[i]! / thick : 0;
      placed.push(isWide ? { x: x + at, y: y + offset, width: long, height: thick } : { x: x + offset, y: y + at, width: thick, height: long });
      at += long;
    }
    offset += thick;
  }
  return placed;
}

interface Strip {
  readonly begin: number;
  readonly end: number;
  readonly area: number;
}

/** Divides areas into at most `count` strips of similar size. The middle of an area determines its strip. */
function stripsOf(areas: readonly number[], count: number, total: number): Strip[] {
  const strips: Strip[] = [];
  let [begin, area, sum, strip] = [0, 0, 0, 0];
  for (const [i, own] of areas.entries()) {
    const next = Math.min(count - 1, Math.floor(((sum + own / 2) / total) * count));
    if (next !== strip && i > begin) {
      strips.push({ begin, end: i, area });
      [begin, area] = [i, 0];
    }
    strip = next;
    area += own;
    sum += own;
  }
  strips.push({ begin, end: areas.length, area });
  return strips;
}

/** Returns the mean aspect ratio of all rectangles, the longer side divided by the shorter. */
function meanRatio(areas: readonly number[], strips: readonly Strip[], along: number): number {
  let sum = 0;
  for (const { begin, end, area } of strips) {
    const thick = area / along;
    for (let i = begin; i < end; i++) {
      const long = areas[i]! / thick;
      sum += long > 0 ? Math.max(long / thick, thick / long) : 1;
    }
  }
  return sum / areas.length;
}
