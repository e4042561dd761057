/** The card that answers whether a tensor is quantised. */

import type { Levels, UnitCounts } from "../engine/levels/report.js";
import { dataValue, element } from "../page/element.js";
import { formatCount } from "../page/format.js";
import { distinctText } from "./levels-verdict.js";
import type { Verdict } from "./levels-verdict.js";

export function levelsCard({ title, evidence }: Verdict, levels: Levels): HTMLElement {
  const { distinct, significantBits, perUnit } = levels;
  const fact = (label: string, value: number, text: string) => element("div", {}, element("dt", {}, label), element("dd", {}, dataValue(value, text)));
  const rows = perUnit.find(({ unit }) => unit === "row");
  const groups = perUnit.filter(({ unit }) => typeof unit === "number" && unit >= 32).slice(0, 2);
  const facts = [
    fact("Distinct values", distinct, distinctText(levels)),
    rows && rows.units > 1 && fact("per row", rows.max, range(rows)),
    ...groups.map((group) => fact(`per ${group.unit} neighbours`, group.max, range(group))),
    levels.checkedRows > 0 && fact("Significant bits", significantBits, `≤ ${significantBits}`),
  ].filter((node) => node !== undefined && node !== false);
  return element(
    "section",
    { class: "card chart-card levels" },
    element("h3", {}, "Is it quantised?"),
    element("p", { class: "verdict" }, title),
    evidence !== "" && element("p", { class: "quiet" }, evidence),
    element("dl", { class: "level-counts", "aria-label": "Distinct values" }, ...facts),
  );
}

/** Formats the median and the maximum of a count. */
function range({ median, max }: UnitCounts): string {
  return median === max ? formatCount(max) : `${formatCount(median)}, up to ${formatCount(max)}`;
}
