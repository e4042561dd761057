/** Colour scales with numbers. */

/**
 * The mapping of values to colours: `root` starts at zero and spreads small values, `linear` goes from the least to the
 * largest value, and `log` is logarithmic.
 */
export type ScaleKind = "root" | "linear" | "log";

/** The colours of a scale, as classes of the style sheet: white to orange for changes, and teal for everything else. */
export type Palette = "change" | "amount";

export interface Scale {
  /** Returns the position of a value, from 0 to 1. */
  readonly at: (value: number) => number;
  /** The values at evenly spaced positions, from the first to the last. */
  readonly ticks: readonly number[];
  /** True if there are values above the last tick; `isUndercut` is the same for values below the first tick. */
  readonly isExceeded?: boolean;
  readonly isUndercut?: boolean;
}

/** The number of ticks of a scale. */
const TICKS = 3;

/**
 * A value, and whether it is left out when the scale is determined. A value that is left out is drawn at an end of the
 * scale if it lies outside.
 */
export interface Scaled {
  readonly value: number;
  readonly isOutlier: boolean;
}

/** Returns the scale of the values that are not outliers, or of all values if all are outliers. */
export function scaleOf(kind: ScaleKind, values: readonly Scaled[]): Scale {
  const usual = values.filter(({ isOutlier }) => !isOutlier);
  const scale = scaleFor(kind, withoutExtremes((usual.length > 0 ? usual : values).map(({ value }) => value)));
  const last = scale.ticks.at(-1) ?? Number.POSITIVE_INFINITY;
  const first = scale.ticks[0] ?? Number.NEGATIVE_INFINITY;
  return { ...scale, isExceeded: values.some(({ value }) => value > last * 1.000001), isUndercut: values.some(({ value }) => value < first * 0.999999) };
}

/** The fraction of values at either end that do not determine a scale. */
const EXTREMES = 0.02;

/**
 * Returns the least and the largest value after dropping the extreme ones. Zeros are never extreme: if little has
 * changed, most values are zero.
 */
function withoutExtremes(values: readonly number[]): number[] {
  const sorted = values.filter((value) => Number.isFinite(value) && value !== 0).sort((a, b) => a - b);
  if (sorted.length === 0) return values.filter(Number.isFinite);
  const last = sorted.length - 1;
  return [sorted[Math.floor(EXTREMES * last)]!, sorted[Math.ceil((1 - EXTREMES) * last)]!, ...(values.includes(0) ? [0] : [])];
}

/** Returns the scale that covers the finite `values`. */
export function scaleFor(kind: ScaleKind, values: Iterable<number>): Scale {
  let [least, most] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const value of values) {
    // A logarithmic scale has no position for zero, which is drawn at the low end.
    if (!Number.isFinite(value) || (kind === "log" && value <= 0)) continue;
    least = Math.min(least, value);
    most = Math.max(most, value);
  }
  if (least > most) return { at: () => 0, ticks: [] };
  if (kind === "root") least = 0;
  const [bend, unbend] = BENDS[kind];
  const [low, high] = [bend(least), bend(most)];
  const at = (value: number): number => {
    if (value === Number.POSITIVE_INFINITY) return 1;
    return high > low ? Math.max(0, Math.min(1, (bend(value) - low) / (high - low))) : kind === "root" && most === 0 ? 0 : 1;
  };
  const ticks = high > low ? Array.from({ length: TICKS }, (_, i) => unbend(low + ((high - low) * i) / (TICKS - 1))) : [most];
  return { at, ticks };
}

const BENDS: Readonly<Record<ScaleKind, readonly [(value: number) => number, (value: number) => number]>> = {
  root: [Math.sqrt, (bent) => bent * bent],
  linear: [(value) => value, (bent) => bent],
  log: [Math.log, Math.exp],
};

/** Returns the CSS colour at a position from 0 to 1 on a gradient of three colours. */
export function colourAt(position: number, [low, middle, high]: readonly [string, string, string]): string {
  const [from, to, share] = position < 0.5 ? [low, middle, 2 * position] : [middle, high, 2 * position - 1];
  return `color-mix(in oklab, ${to} ${(100 * share).toFixed(1)}%, ${from})`;
}

/** Returns the three colours of a palette as references to the style sheet, which follow its colour scheme. */
export const paletteColours = (palette: Palette): readonly [string, string, string] => [`var(--${palette}-low)`, `var(--${palette}-middle)`, `var(--${palette}-high)`];
