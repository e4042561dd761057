/** The table of runtimes and features in the documentation. */

/**
 * Returns the cells of the first table of `markdown`: runtime → feature → { works } or { works: false, reason }. A cell is
 * "✓", or the number of a sentence in the list after the table.
 */
export function cells(markdown) {
  const lines = markdown.split("\n");
  const first = lines.findIndex((line) => line.startsWith("| "));
  const rows = [];
  for (let i = first; lines[i]?.startsWith("|"); i++) rows.push(lines[i].split("|").slice(1, -1).map((cell) => cell.trim()));
  const reasons = new Map(lines.flatMap((line) => [...line.matchAll(/^(\d+)\. (.+)$/g)].map(([, number, reason]) => [number, reason])));
  const [[, ...runtimes], , ...features] = rows;
  const cell = (text) => (text === "✓" ? { works: true } : { works: false, reason: reasons.get(text) });
  return new Map(runtimes.map((runtime, column) => [runtime, new Map(features.map(([feature, ...row]) => [feature.replaceAll("`", ""), cell(row[column])]))]));
}
