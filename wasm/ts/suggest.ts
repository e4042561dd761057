/** Names that a person may have meant. */

/** More names than anyone reads in an error message. */
const MOST_SUGGESTIONS = 3;

/** Comparing costs (length of name)²; an absurd name is not compared at all. */
const LONGEST_COMPARED_CHARACTERS = 200;

/** The names most like `wanted`, best first; only those that are really like it. */
export function closeMatches(wanted: string, names: Iterable<string>): string[] {
  const scored: { name: string; distance: number }[] = [];
  const target = wanted.toLowerCase().slice(0, LONGEST_COMPARED_CHARACTERS);
  for (const name of names) {
    const candidate = name.toLowerCase().slice(0, LONGEST_COMPARED_CHARACTERS);
    const allowed = Math.max(2, Math.floor(Math.max(candidate.length, target.length) / 3));
    // A part of a name ("wte" for "transformer.wte.weight") counts as near.
    const contained = target.length >= 3 && candidate.includes(target);
    if (!contained && Math.abs(candidate.length - target.length) > allowed) continue;
    const distance = contained ? 1 : editDistance(target, candidate);
    if (distance <= allowed) scored.push({ name, distance });
  }
  scored.sort((a, b) => a.distance - b.distance || a.name.length - b.name.length);
  return scored.slice(0, MOST_SUGGESTIONS).map((entry) => entry.name);
}

/** Levenshtein distance, one row at a time. */
function editDistance(a: string, b: string): number {
  let row = Uint16Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = new Uint16Array(row.length);
    next[0] = i;
    for (let j = 1; j <= b.length; j++) {
      const substituted = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next[j] = Math.min(substituted, row[j]! + 1, next[j - 1]! + 1);
    }
    row = next;
  }
  return row[b.length]!;
}
