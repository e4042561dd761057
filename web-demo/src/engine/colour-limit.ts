/** Finds the end of a colour scale: the level (mean or RMS of the cells of a pixel) that gets the last colour. */

/** The fraction of pixels that may exceed the colour scale. */
const BEYOND_SHARE = 0.01;
/**
 * The end of a scale of magnitudes, as a multiple of the median. At this multiple, a row or column several times larger
 * than the others is clearly visible, and the others remain distinguishable.
 */
const MEDIANS = 4;
const MAX_SORTED = 20_000;

export interface ColourLimit {
  readonly limit: number;
  /** The largest finite level. */
  readonly max: number;
  readonly hasNonFinite: boolean;
  /** True if any level is finite. If none is, the limit has no meaning. */
  readonly hasFinite: boolean;
}

/** Returns whether a level of `max` visibly exceeds a scale that ends at `limit`. */
export const exceeds = (max: number, limit: number): boolean => max > limit * 1.001;

/** Returns the end of the scale, a level that nearly all `levels` are below. NaN levels are unknown and ignored. */
export function colourLimit(levels: Float64Array, isRms: boolean): ColourLimit {
  let [max, hasNonFinite, hasFinite] = [0, false, false];
  for (let i = 0; i < levels.length; i++) {
    const size = Math.abs(levels[i]!);
    if (size === Number.POSITIVE_INFINITY) hasNonFinite = true;
    else if (size >= 0) {
      hasFinite = true;
      if (size > max) max = size;
    }
  }
  const step = Math.max(1, Math.floor(levels.length / MAX_SORTED));
  const sorted: number[] = [];
  for (let i = 0; i < levels.length; i += step) if (Number.isFinite(levels[i])) sorted.push(Math.abs(levels[i]!));
  sorted.sort((a, b) => a - b);
  const quantile = (share: number) => sorted[Math.floor((sorted.length - 1) * share)] ?? 0;
  const common = Math.max(quantile(1 - BEYOND_SHARE), isRms ? MEDIANS * quantile(0.5) : 0);
  const limit = Math.min(max, common > 0 ? common : max) || 1;
  return { limit, max, hasNonFinite, hasFinite };
}
