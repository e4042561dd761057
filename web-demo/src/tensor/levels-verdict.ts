/** States in words whether the values of a tensor look quantised, and on which evidence. */

import type { TensorInfo } from "zstn";
import type { Grid, GridKind, Levels, Unit } from "../engine/levels/report.js";
import { MAX_DISTINCT } from "../engine/levels/report.js";
import { formatCount, formatShare, formatValue, plural } from "../page/format.js";

export interface Verdict {
  /** The answer in one line, without a full stop. */
  readonly title: string;
  /** The sentences with the evidence. */
  readonly evidence: string;
}

/** The number of neighbours whose distinct values show whether a 4-bit code is possible. */
const NEIGHBOURS = 32;
const FOUR_BIT_LEVELS = 16;
/** Scales that differ by less than this fraction are the same. */
const SAME_SCALE = 2e-3;

const NAMES: Partial<Readonly<Record<GridKind, string>>> = { E2M1: "4-bit floats (E2M1)", NF4: "NF4", FP4: "FP4 of bitsandbytes", E4M3: "8-bit floats (E4M3)", E5M2: "8-bit floats (E5M2)" };

/** Returns the verdict. It claims nothing about values that were not read. */
export function verdictOf(levels: Levels, info: Pick<TensorInfo, "dtype" | "format" | "shape" | "originalLength">): Verdict {
  const { counted, distinct, min, max, grid, significantBits, checkedRows } = levels;
  const { dtype, format, originalLength } = info;
  const count = info.shape.reduce((product, size) => product * size, 1);
  const facts = [grid && gridText(grid), countText(levels), neighbourText(levels), checkedText(levels)].filter((text) => text !== undefined && text !== "");
  const evidence = facts.join(" ");
  if (format !== undefined && originalLength !== undefined) {
    return { title: `Stored as ${format}: ${((8 * originalLength) / Math.max(1, count)).toFixed(2)} bits per value, with scales`, evidence };
  }
  if (counted === 0) return { title: "No finite value was read", evidence: "" };
  if (/^[IUB]\d*/.test(dtype) && !dtype.startsWith("BF")) return { title: `Integers from ${formatValue(min)} to ${formatValue(max)}`, evidence: `${evidence}${isPackable(dtype) ? " Each may contain several packed codes." : ""}` };
  if (/^F[468](_|$)/.test(dtype)) return { title: `Stored with ${dtype[1]} bits per value (${dtype})`, evidence };
  if (distinct === 1) return { title: `${isAll(levels) ? "All values" : "All values that were read"} are ${formatValue(min)}`, evidence };
  if (checkedRows === 0) return { title: `${distinctText(levels)} distinct values`, evidence };
  if (grid) return { title: gridTitle(grid, levels), evidence };
  const short = dtype === "F32" || dtype === "F64" ? (significantBits <= 8 ? "bfloat16" : significantBits <= 11 ? "float16, apart from its range" : undefined) : undefined;
  return { title: `No grid found: ${distinctText(levels)} distinct values in the ${formatCount(counted)} that were read`, evidence: [short && `The precision is that of ${short}: no value that was read has more significant bits.`, neighbourText(levels), checkedText(levels)].filter(Boolean).join(" ") };
}

const isPackable = (dtype: string): boolean => /^(U8|I32|U32)$/.test(dtype);

const isAll = ({ counted, nonFinite, total }: Levels): boolean => counted + nonFinite >= total;

/** Returns the number of distinct values, which may be a bound. */
export const distinctText = ({ distinct }: Levels): string => (distinct > MAX_DISTINCT ? `more than ${formatCount(MAX_DISTINCT)}` : formatCount(distinct));

/** Returns whether the values of some neighbours are too many for a code of 4 bits. */
function exceedsFourBits({ perUnit }: Levels): boolean {
  return perUnit.some(({ unit, max }) => unit === NEIGHBOURS && max > FOUR_BIT_LEVELS);
}

function gridTitle(grid: Grid, levels: Levels): string {
  const { kind, unit, bits, levels: count } = grid;
  const isPerRow = unit === "row" && levels.checkedRows > 1;
  // Values of a palette may be any, so few of them alone do not show that they were quantised.
  if (kind === "palette") return `At most ${count} distinct values ${typeof unit === "number" ? `in each group of ${unit}` : isPerRow ? "in each row" : "in all"}${levels.checkedValues < levels.total ? " that were checked" : ""}: ${plural(bits, "bit")} would do`;
  const name = NAMES[kind] ?? `${bits}-bit quantisation`;
  const scope = typeof unit === "number" ? `group size ${unit}` : isPerRow ? "one scale per row" : "one scale";
  return `Consistent with ${name}, ${scope}${levels.checkedValues < levels.total ? `, in the ${isPerRow || levels.checkedRows > 1 ? "rows" : "values"} checked` : ""}${bits > 4 && exceedsFourBits(levels) ? ": not 4-bit" : ""}`;
}

/** Returns a sentence about the grid. All units that were checked lie on it. */
function gridText({ kind, unit, units, levels, scales }: Grid): string {
  const subject = subjectOf(unit, units);
  const what = {
    uniform: `${formatCount(levels)} levels at most, which are multiples of one step`,
    offset: `${formatCount(levels)} levels at most, with one step from an offset`,
    E2M1: "values of a 4-bit float times one scale",
    NF4: "values of NF4 times one scale",
    FP4: "values of this 4-bit float times one scale",
    E4M3: "values with 4 significant bits, times one scale",
    E5M2: "values with 3 significant bits, times one scale",
    palette: `${formatCount(levels)} distinct values at most`,
  }[kind];
  return `${subject} has ${what}${scales ? `; ${scaleText(kind, scales, units)}` : ""}.`;
}

function subjectOf(unit: Unit, units: number): string {
  if (typeof unit === "number") return `Each of ${formatCount(units)} groups of ${unit} values along rows`;
  return unit === "row" && units > 1 ? `Each of ${formatCount(units)} rows` : "The whole of it";
}

function scaleText(kind: GridKind, [least, most]: readonly [number, number], units: number): string {
  const word = kind === "uniform" || kind === "offset" ? "step" : "scale";
  if (most - least <= SAME_SCALE * most) return `the ${word} is ${formatValue(most)}${units > 1 ? " in all" : ""}`;
  return `the ${word}s differ, from ${formatValue(least)} to ${formatValue(most)}`;
}

function countText(levels: Levels): string {
  const { counted, nonFinite } = levels;
  const others = nonFinite > 0 ? ` ${formatCount(nonFinite)} NaN or ∞ are not counted.` : "";
  return counted === 0 ? "" : `${sentence(distinctText(levels))} distinct ${levels.distinct === 1 ? "value" : "values"} in the ${formatCount(counted)} that were read.${others}`;
}

function neighbourText({ perUnit }: Levels): string | undefined {
  const found = perUnit.find(({ unit }) => unit === NEIGHBOURS);
  if (!found) return undefined;
  const verdict = found.max > FOUR_BIT_LEVELS ? ", and a 4-bit code has 16 values" : "";
  return `Up to ${formatCount(found.max)} distinct values in ${NEIGHBOURS} neighbours${verdict}.`;
}

function checkedText({ checkedValues, checkedRows, total, isRowCut }: Levels): string {
  if (checkedValues === 0 || checkedValues >= total) return "";
  const rows = isRowCut ? `the beginning of ${plural(checkedRows, "row")}` : plural(checkedRows, "row");
  return `Compared with grids: ${formatCount(checkedValues)} values in ${rows} (${formatShare(checkedValues / total)}).`;
}

const sentence = (text: string): string => text.replace(/^./, (letter) => letter.toUpperCase());
