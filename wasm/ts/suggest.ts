/** Names that a person may have meant. The command line suggests the same ones. */

/** More names than anyone reads in an error message. */
const MAX_SUGGESTIONS = 3;

/** Comparing takes time proportional to the square of the length. Characters after these are not compared. */
const MAX_COMPARED_CHARS = 200;

interface Suggestion {
  distance: number;
  lengthChars: number;
  /** The position among all names. Of equals the first one comes first. */
  place: number;
  name: string;
}

/** Returns the names most like `wanted`, best first; only those that are really like it. */
export function suggestNames(wanted: string, names: Iterable<string>): string[] {
  const targetText = comparedText(wanted);
  const target = compared(targetText);
  const wantedText = joined(target);
  const letters = new Letters(targetText);
  const best: Suggestion[] = [];
  const all = [...names];
  const texts = all.map(comparedText);
  /** The places of names by a number that their distance is not below. */
  const byLeast: number[][] = [];
  for (let place = 0; place < all.length; place++) {
    const text = texts[place]!;
    // A part of a name ("wte" for "transformer.wte.weight") counts as near.
    if (target.length >= 3 && (text.length <= MAX_COMPARED_CHARS ? text : joined(compared(text))).includes(wantedText)) {
      insert(best, { distance: 1, lengthChars: lengthChars(all[place]!), place, name: all[place]! });
      continue;
    }
    const least = letters.leastDistance(text);
    // No name has more characters than units.
    if (least <= allowedFor(text.length, target.length)) (byLeast[least] ??= []).push(place);
  }
  // The nearest first, so that most of the others need not be compared.
  for (let least = 0; least < byLeast.length; least++) {
    for (const place of byLeast[least] ?? []) {
      const worst = best[MAX_SUGGESTIONS - 1]?.distance ?? Number.POSITIVE_INFINITY;
      if (least > worst) break;
      const candidate = compared(texts[place]!);
      const distance = editDistance(target, candidate, Math.min(allowedFor(candidate.length, target.length), worst));
      if (distance !== undefined) insert(best, { distance, lengthChars: lengthChars(all[place]!), place, name: all[place]! });
    }
  }
  return best.map(({ name }) => name);
}

const allowedFor = (length: number, other: number): number => Math.max(2, Math.floor(Math.max(length, other) / 3));

/** Returns the beginning of a name that counts, in lower case. No character takes more than two units; what lies beyond need not be turned into lower case. */
const comparedText = (name: string): string => name.slice(0, 2 * MAX_COMPARED_CHARS).toLowerCase();

/** The characters of a text by their index: the text itself where each takes one unit. */
type Characters = string | readonly string[];

/** Returns the characters that count of such a text. */
const compared = (text: string): Characters => (isOneUnitEach(text) ? text.slice(0, MAX_COMPARED_CHARS) : [...text].slice(0, MAX_COMPARED_CHARS));

const joined = (characters: Characters): string => (typeof characters === "string" ? characters : characters.join(""));

function lengthChars(name: string): number {
  let chars = 0;
  for (const _ of name) chars += 1;
  return chars;
}

/** Keeps `best` sorted and short. */
function insert(best: Suggestion[], added: Suggestion): void {
  const order = (other: Suggestion): number => other.distance - added.distance || other.lengthChars - added.lengthChars || other.place - added.place;
  const at = best.findIndex((other) => order(other) > 0);
  best.splice(at === -1 ? best.length : at, 0, added);
  best.length = Math.min(best.length, MAX_SUGGESTIONS);
}

/** The letters of a text, for a lower bound of distances from it that takes one pass: every edit removes and adds at most one letter. */
class Letters {
  /** How often letters occur. Those with the same last seven bits count as one, which only makes the bound lower. */
  readonly #counts = new Int32Array(128);
  readonly #length: number;
  readonly #isExact: boolean;

  constructor(text: string) {
    this.#length = Math.min(text.length, MAX_COMPARED_CHARS);
    this.#isExact = isOneUnitEach(text);
    for (let i = 0; i < this.#length; i++) this.#counts[text.charCodeAt(i) & 127]! += 1;
  }

  /** Returns a number that the distance of `text` is not below. */
  leastDistance(text: string): number {
    const counts = this.#counts;
    const length = Math.min(text.length, MAX_COMPARED_CHARS);
    // Letters that `text` has and this one lacks.
    let [added, isExact] = [0, this.#isExact];
    for (let i = 0; i < length; i++) {
      const unit = text.charCodeAt(i);
      if (unit >= 0xd800 && unit < 0xe000) isExact = false;
      if (--counts[unit & 127]! < 0) added += 1;
    }
    for (let i = 0; i < length; i++) counts[text.charCodeAt(i) & 127]! += 1;
    return isExact ? Math.max(added, this.#length - length + added) : 0;
  }
}

const isOneUnitEach = (text: string): boolean => !/[\ud800-\udfff]/.test(text);

/** The row of the table that is being computed. */
const row = /* @__PURE__ */ new Uint16Array(MAX_COMPARED_CHARS + 1);

/** Returns the Levenshtein distance, or `undefined` if it is above `allowed`, mostly without computing all rows. */
function editDistance(a: Characters, b: Characters, allowed: number): number | undefined {
  if (Math.abs(a.length - b.length) > allowed) return undefined;
  // What both begin and end with needs no edits.
  let [start, aEnd, bEnd] = [0, a.length, b.length];
  while (start < aEnd && start < bEnd && a[start] === b[start]) start += 1;
  while (aEnd > start && bEnd > start && a[aEnd - 1] === b[bEnd - 1]) [aEnd, bEnd] = [aEnd - 1, bEnd - 1];
  const columns = bEnd - start;
  for (let i = 0; i <= columns; i++) row[i] = i;
  for (let i = 0; i < aEnd - start; i++) {
    // Cells further from the diagonal than `allowed` are above it.
    const [first, last] = [Math.max(0, i - allowed), Math.min(columns, i + allowed + 1)];
    let diagonal = row[first]!;
    let least = (row[first] = first === 0 ? i + 1 : allowed + 1);
    for (let j = first; j < last; j++) {
      const substituted = diagonal + (a[start + i] === b[start + j] ? 0 : 1);
      diagonal = row[j + 1]!;
      row[j + 1] = Math.min(substituted, diagonal + 1, row[j]! + 1);
      least = Math.min(least, row[j + 1]!);
    }
    // Distances never become smaller from row to row.
    if (least > allowed) return undefined;
  }
  const distance = row[columns]!;
  return distance <= allowed ? distance : undefined;
}
