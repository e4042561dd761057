/** Squarified treemaps: dividing a rectangle by size into rectangles close to squares (Bruls, Huizing, van Wijk 2000). */

export interface Rectangle {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** Returns a rectangle for each of `sizes`, which are sorted, largest first. A size of zero gets an empty one. */
export function squarify(sizes: readonly number[], { x, y, width, height }: Rectangle): Rectangle[] {
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const placed: Rectangle[] = [];
  if (!(total > 0) || !(width > 0) || !(height > 0)) return sizes.map(() => ({ x, y, width: 0, height: 0 }));
  const scale = (width * height) / total;
  let [left, top, across, down] = [x, y, width, height];
  for (let begin = 0; begin < sizes.length; ) {
    const side = Math.min(across, down);
    let [end, area] = [begin, 0];
    let worst = Number.POSITIVE_INFINITY;
    // Sizes fall, so the first and the last of a strip are the ones that can be narrowest.
    while (end < sizes.length) {
      const next = area + sizes[end]! * scale;
      const [largest, least] = [sizes[begin]! * scale, sizes[end]! * scale];
      const narrowest = Math.max((side * side * largest) / (next * next), (next * next) / (side * side * least));
      if (end > begin && !(narrowest <= worst)) break;
      [worst, area, end] = [narrowest, next, end + 1];
    }
    const thick = side > 0 ? area / side : 0;
    let along = 0;
    for (let i = begin; i < end; i++) {
      const long = thick > 0 ? (sizes[i]! * scale) / thick : 0;
      placed.push(across >= down ? { x: left, y: top + along, width: thick, height: long } : { x: left + along, y: top, width: long, height: thick });
      along += long;
    }
    if (across >= down) [left, across] = [left + thick, Math.max(0, across - thick)];
    else [top, down] = [top + thick, Math.max(0, down - thick)];
    begin = end;
  }
  return placed;
}
