/** Finds the grid that all values of some rows lie on: its unit, its kind and its number of levels. */

import { CODEBOOKS, fitCodebook } from "./fit-codebook.js";
import { fitFloat } from "./fit-float.js";
import { fitStep } from "./fit-step.js";
import type { Precision } from "./precision.js";
import type { Grid, GridKind, Unit, UnitCounts } from "./report.js";
import { closePairs, distancesFromLeast, magnitudes, union, unitValues } from "./unit-values.js";
import type { UnitValues } from "./unit-values.js";

/** The group sizes that are tried. Scales for other numbers of values are found in a group that divides them. */
const GROUPS = [16, 32, 64, 128, 256, 512];
/** The maximum number of levels of a grid: a code of 8 bits. */
const MAX_LEVELS = 256;
/** The maximum number of steps from an offset, as of GGUF's types with a minimum, which have up to 5 bits. */
const MAX_OFFSET_STEPS = 31;
/** The evidence that a grid needs, in bits, in all and per value. */
const MIN_EVIDENCE = 64;
const MIN_EVIDENCE_PER_VALUE = 0.25;
/** The evidence that a grid of repeated values needs: repetitions of up to 16 values are evidence enough. */
const MIN_PALETTE_EVIDENCE = 24;
const FEW_LEVELS = 16;
/** The number of distinct values in a unit above which no grid is tried. Levels of both signs may have the same magnitude. */
const MAX_POINTS = 2 * MAX_LEVELS;
/** In a palette, each value occurs this often on average, and this many values are repetitions. */
const MIN_REPETITION = 1.5;
const MIN_REPEATED = 64;
/** The maximum fraction of neighbouring levels with at most one representable value between them. Otherwise the dtype itself is the grid. */
const MAX_CLOSE = 0.1;
/**
 * The number of distinct values of a palette does not grow with its unit. Those of twice as many values with two
 * palettes are twice as many.
 */
const MAX_GROWTH = 1.75;

/** Of two kinds with as many bits and the same unit, the later one is chosen. E2M1 and FP4 have most levels in common. */
const KINDS: readonly Exclude<GridKind, "palette">[] = ["uniform", "FP4", "NF4", "E2M1", "E4M3", "E5M2", "offset"];

/** A kind of grid for one unit, until a unit does not fit. */
class Hypothesis {
  isAlive = true;
  readonly kind: Exclude<GridKind, "palette">;
  #evidence = 0;
  #values = 0;
  #levels = 0;
  #least = Number.POSITIVE_INFINITY;
  #most = 0;

  constructor(kind: Exclude<GridKind, "palette">) {
    this.kind = kind;
  }

  add(values: UnitValues, precision: Precision): void {
    if (!this.isAlive || values.distinct.length === 0) return;
    const fit = this.#fit(values, precision);
    this.isAlive = fit !== undefined && fit.levels <= MAX_LEVELS;
    if (!fit) return;
    this.#evidence += fit.evidence;
    this.#values += values.distinct.length;
    this.#levels = Math.max(this.#levels, fit.levels);
    this.#least = Math.min(this.#least, fit.scale);
    this.#most = Math.max(this.#most, fit.scale);
  }

  /** Returns the grid, if the evidence suffices. `isPalette` states that the values are repeated in each unit. */
  grid(unit: Unit, units: number, isPalette: boolean): Grid | undefined {
    const needed = isPalette ? (this.#levels <= FEW_LEVELS ? 0 : MIN_PALETTE_EVIDENCE) : Math.max(MIN_EVIDENCE, MIN_EVIDENCE_PER_VALUE * this.#values);
    return this.isAlive && this.#values > 0 && this.#evidence >= needed ? { kind: this.kind, unit, units, levels: this.#levels, bits: bitsOf(this.#levels), ...(this.#most > 0 && { scales: [this.#least, this.#most] as const }) } : undefined;
  }

  #fit(values: UnitValues, precision: Precision): { scale: number; evidence: number; levels: number } | undefined {
    if (values.distinct.length > MAX_POINTS) return undefined;
    if (this.kind === "E4M3" || this.kind === "E5M2") {
      const evidence = fitFloat(magnitudes(values, precision), this.kind);
      // The scale is not shown, because it is only known up to a power of two.
      return evidence === undefined ? undefined : { scale: 0, evidence, levels: MAX_LEVELS };
    }
    if (this.kind !== "uniform" && this.kind !== "offset") {
      const fit = fitCodebook(values, precision, this.kind);
      // The code of zero is one of the levels; E2M1 has two of them.
      return fit && { ...fit, levels: CODEBOOKS[this.kind].length + 1 };
    }
    const points = this.kind === "uniform" ? magnitudes(values, precision) : distancesFromLeast(values, precision);
    const fit = fitStep(points, this.kind === "uniform" ? MAX_LEVELS - 1 : MAX_OFFSET_STEPS);
    if (!fit) return undefined;
    const { distinct, hasZero } = values;
    const low = Math.min(distinct[0]!, hasZero ? 0 : Number.POSITIVE_INFINITY);
    const high = Math.max(distinct.at(-1)!, hasZero ? 0 : Number.NEGATIVE_INFINITY);
    return { scale: fit.step, evidence: fit.evidence, levels: fit.step === 0 ? 1 : Math.round((high - low) / fit.step) + 1 };
  }
}

/** The units of one length: the counts of their distinct values, and the kinds of grids that they may have. */
class UnitSearch {
  readonly unit: Unit;
  readonly hypotheses = KINDS.map((kind) => new Hypothesis(kind));
  readonly #counts: number[] = [];
  #nonZero = 0;
  #distinct = 0;
  #pairs = 0;
  #close = 0;

  constructor(unit: Unit) {
    this.unit = unit;
  }

  add(values: UnitValues, precision: Precision): void {
    this.#counts.push(values.distinct.length + (values.hasZero ? 1 : 0));
    this.#nonZero += values.nonZero;
    this.#distinct += values.distinct.length;
    const { pairs, close } = closePairs(values, precision);
    this.#pairs += pairs;
    this.#close += close;
    for (const hypothesis of this.hypotheses) hypothesis.add(values, precision);
  }

  get counts(): UnitCounts {
    const sorted = Uint32Array.from(this.#counts).sort();
    return { unit: this.unit, units: sorted.length, median: sorted[sorted.length >> 1] ?? 0, max: sorted.at(-1) ?? 0 };
  }

  get meanDistinct(): number {
    return this.#distinct / Math.max(1, this.#counts.length);
  }

  /** Returns whether the values repeat, although the dtype could represent more values between them. */
  get hasPalette(): boolean {
    const isRepeated = this.#nonZero >= MIN_REPETITION * this.#distinct && this.#nonZero - this.#distinct >= MIN_REPEATED;
    return isRepeated && this.#close <= MAX_CLOSE * this.#pairs && this.counts.max <= MAX_LEVELS;
  }

  grids(): Grid[] {
    const isPalette = this.hasPalette;
    return this.hypotheses.flatMap((hypothesis) => hypothesis.grid(this.unit, this.#counts.length, isPalette) ?? []);
  }
}

/**
 * Searches the grid of `rows`. Returns the coarsest grid, if there is one, and the counts of distinct values for rows
 * and groups. Values of a row are neighbours; `precision` is the rounding that they have been through.
 */
export function findGrid(rows: readonly ArrayLike<number>[], precision: Precision): { perUnit: UnitCounts[]; grid: Grid | undefined } {
  const longest = rows.reduce((most, { length }) => Math.max(most, length), 0);
  const searches: UnitSearch[] = [];
  for (const group of GROUPS.filter((size) => size < longest)) {
    const search = new UnitSearch(group);
    for (const row of rows) for (let at = 0; at < row.length; at += group) search.add(unitValues(row, at, Math.min(row.length, at + group)), precision);
    searches.push(search);
  }
  const whole = rows.map((row) => unitValues(row, 0, row.length));
  const ofRows = new UnitSearch("row");
  for (const values of whole) ofRows.add(values, precision);
  searches.push(ofRows);
  if (rows.length > 1) {
    const ofTensor = new UnitSearch("tensor");
    ofTensor.add(union(whole), precision);
    searches.push(ofTensor);
  }
  return { perUnit: searches.map(({ counts }) => counts), grid: choose(searches) };
}

/** Chooses the grid with the fewest bits; of these, the one with the largest unit. */
function choose(searches: readonly UnitSearch[]): Grid | undefined {
  const grids = searches.flatMap((search) => search.grids());
  // A smaller unit may need one bit less by chance.
  const uniform = largest(grids.filter(({ kind }) => kind === "uniform"), 1);
  const coded = largest(grids.filter(({ kind }) => kind !== "uniform" && kind !== "offset"), 0);
  const offset = largest(grids.filter(({ kind }) => kind === "offset"), 1);
  const [simple] = [uniform, coded, offset].filter((grid) => grid !== undefined).sort((a, b) => a.bits - b.bits || size(b.unit) - size(a.unit));
  const found = paletteOf(searches);
  if (!simple || !found) return simple ?? found;
  return found.levels <= FEW_LEVELS && found.bits < simple.bits && size(found.unit) >= size(simple.unit) ? found : simple;
}

/** Returns the grid with the largest unit among those with the fewest bits, or up to `moreBits` more. */
function largest(grids: readonly Grid[], moreBits: number): Grid | undefined {
  const fewest = grids.reduce((least, { bits }) => Math.min(least, bits), Number.POSITIVE_INFINITY);
  return grids.filter(({ bits }) => bits <= fewest + moreBits).at(-1);
}

/** Returns the palette of the largest units that have one each. */
function paletteOf(searches: readonly UnitSearch[]): Grid | undefined {
  let [found, previous]: (UnitSearch | undefined)[] = [];
  for (const search of searches) {
    if (found && previous && search.meanDistinct > MAX_GROWTH * previous.meanDistinct) break;
    if (search.unit !== GROUPS[0] && search.hasPalette) found = search;
    previous = search;
  }
  if (!found) return undefined;
  const { unit, units, max } = found.counts;
  return { kind: "palette", unit, units, levels: max, bits: bitsOf(max) };
}

/** Returns the number of bits of a code for this many levels. */
const bitsOf = (levels: number): number => Math.max(1, Math.ceil(Math.log2(levels)));

/** Orders units by their length. */
const size = (unit: Unit): number => (typeof unit === "number" ? unit : unit === "row" ? 2 ** 40 : 2 ** 41);
