/** The colours of a heatmap: violet below zero and green above, as in the table of values. */

import type { Shading } from "./protocol.js";

type Colour = readonly [number, number, number];

interface Scheme {
  ground: Colour;
  positive: readonly Colour[];
  negative: readonly Colour[];
  /** The colour of values that are not finite. */
  nothing: Colour;
}

const LIGHT: Scheme = {
  ground: [250, 249, 245],
  positive: [[128, 205, 190], [13, 122, 107], [2, 62, 56]],
  negative: [[190, 165, 232], [109, 63, 192], [58, 22, 122]],
  nothing: [226, 81, 31],
};

const DARK: Scheme = {
  ground: [22, 23, 26],
  positive: [[20, 92, 84], [76, 201, 179], [205, 250, 240]],
  negative: [[74, 50, 128], [160, 126, 250], [226, 214, 255]],
  nothing: [255, 116, 66],
};

const STEPS = 512;

/**
 * Returns a function that maps a level from -1 to 1 to a pixel in memory order. Infinite levels get a colour of their
 * own; NaN, an unknown level, is transparent.
 */
export function palette(shading: Shading, dark: boolean): (level: number) => number {
  const scheme = dark ? DARK : LIGHT;
  const positive = ramp([scheme.ground, ...scheme.positive]);
  const negative = shading === "mean" ? ramp([scheme.ground, ...scheme.negative]) : positive;
  const nothing = packed(scheme.nothing);
  return (level) => {
    if (Number.isNaN(level)) return 0;
    if (!Number.isFinite(level)) return nothing;
    const step = Math.min(STEPS, Math.round(Math.abs(level) * STEPS));
    return (level < 0 ? negative : positive)[step]!;
  };
}

function ramp(stops: readonly Colour[]): Uint32Array {
  return Uint32Array.from({ length: STEPS + 1 }, (_, step) => {
    const place = (step / STEPS) * (stops.length - 1);
    const index = Math.min(stops.length - 2, Math.floor(place));
    const share = place - index;
    const mixed = [0, 1, 2].map((i) => stops[index]![i]! * (1 - share) + stops[index + 1]![i]! * share);
    return packed(mixed as unknown as Colour);
  });
}

/** Returns the pixel of an opaque colour. On little-endian machines, its bytes are in the order of canvas images (RGBA). */
const packed = ([red, green, blue]: Colour): number => ((255 << 24) | (Math.round(blue) << 16) | (Math.round(green) << 8) | Math.round(red)) >>> 0;
