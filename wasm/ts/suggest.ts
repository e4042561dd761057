/** Names that a person may have meant. The command line suggests the same ones. */

/** More names than anyone reads in an error message. */
const MAX_SUGGESTIONS = 3;

/** Comparing takes time proportional to the square of the length. Characters after these are not compared. */
const MAX_COMPARED_CHARS = 200;

interface Suggestion {
  distance: number;
  lengthChars: number;
  name: string;
}

/** Returns the names most like `wanted`, best first; only those that are really like it. */
export function suggestNames(wanted: string, names: Iterable<string>): string[] {
  const target = compared(wanted);
  const wantedText = target.join("");
  const best: Suggestion[] = [];
  for (const name of names) {
    const candidate = compared(name);
    const allowed = Math.max(2, Math.floor(Math.max(candidate.length, target.length) / 3));
    const worst = best[MAX_SUGGESTIONS - 1]?.distance ?? allowed;
    // A part of a name ("wte" for "transformer.wte.weight") counts as near.
    const isContained = target.length >= 3 && candidate.join("").includes(wantedText);
    const distance = isContained ? 1 : editDistance(target, candidate, Math.min(allowed, worst));
    if (distance !== undefined) insert(best, { distance, lengthChars: lengthChars(name), name });
  }
  return best.map(({ name }) => name);
}

/** Returns the characters of a name that count, in lower case. */
function compared(name: string): string[] {
  // No character takes more than two units; what lies beyond need not be turned into lower case.
  return [...name.slice(0, 2 * MAX_COMPARED_CHARS).toLowerCase()].slice(0, MAX_COMPARED_CHARS);
}

function lengthChars(name: string): number {
  let chars = 0;
  for (const _ of name) chars += 1;
  return chars;
}

/** Keeps `best` sorted and short. Of equals the first one stays first. */
function insert(best: Suggestion[], { distance, lengthChars, name }: Suggestion): void {
  const isAfter = (other: Suggestion) => other.distance > distance || (other.distance === distance && other.lengthChars > lengthChars);
  const at = best.findIndex(isAfter);
  best.splice(at === -1 ? best.length : at, 0, { distance, lengthChars, name });
  best.length = Math.min(best.length, MAX_SUGGESTIONS);
}

/** Returns the Levenshtein distance, or `undefined` if it is above `allowed`, mostly without computing all rows. */
function editDistance(a: readonly string[], b: readonly string[], allowed: number): number | undefined {
  if (Math.abs(a.length - b.length) > allowed) return undefined;
  const row = Uint16Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 0; i < a.length; i++) {
    let diagonal = row[0]!;
    let least = (row[0] = i + 1);
    for (let j = 0; j < b.length; j++) {
      const substituted = diagonal + (a[i] === b[j] ? 0 : 1);
      diagonal = row[j + 1]!;
      row[j + 1] = Math.min(substituted, diagonal + 1, row[j]! + 1);
      least = Math.min(least, row[j + 1]!);
    }
    // Distances never become smaller from row to row.
    if (least > allowed) return undefined;
  }
  const distance = row[b.length]!;
  return distance <= allowed ? distance : undefined;
}
