/**
 * Suggests tensor names similar to a misspelt one. The command line makes the same suggestions, unless a model has so
 * many dissimilar names that `MAX_CELLS` ends the search.
 */

/** The maximum number of suggestions in an error message. */
const MAX_SUGGESTIONS = 3;

/** The number of leading characters that are compared. Comparing takes time proportional to the square of the length. */
const MAX_COMPARED_CHARS = 200;

/** The maximum number of names that are considered. */
const MAX_NAMES = 200_000;

/** The maximum number of cells in all distance tables together: some 10 milliseconds of work. */
const MAX_CELLS = 2_000_000;

interface Suggestion {
  distance: number;
  lengthChars: number;
  /** The position among all names. Among equal suggestions, the lower position wins. */
  place: number;
  name: string;
}

/** Returns up to `MAX_SUGGESTIONS` names that are similar to `wanted`, best match first. */
export function suggestNames(wanted: string, names: Iterable<string>): string[] {
  const targetText = comparedText(wanted);
  const target = compared(targetText);
  const wantedText = joined(target);
  const letters = new Letters(targetText);
  const best: Suggestion[] = [];
  const all: string[] = [];
  const texts: string[] = [];
  /** The positions of names, grouped by a lower bound of their distance. */
  const byLeast: number[][] = [];
  for (const name of names) {
    const place = all.length;
    if (place === MAX_NAMES) break;
    const text = comparedText(name);
    all.push(name);
    texts.push(text);
    // A substring of a name ("wte" of "transformer.wte.weight") counts as a near match.
    if (target.length >= 3 && (text.length <= MAX_COMPARED_CHARS ? text : joined(compared(text))).includes(wantedText)) {
      insert(best, { distance: 1, lengthChars: lengthChars(name), place, name });
      continue;
    }
    const least = letters.leastDistance(text);
    // A name never has more characters than UTF-16 units, so the allowed distance is not underestimated.
    if (least <= allowedFor(text.length, target.length)) (byLeast[least] ??= []).push(place);
  }
  // Names with the lowest bound come first, so that most of the others need not be compared.
  cells = 0;
  for (let least = 0; least < byLeast.length; least++) {
    for (const place of byLeast[least] ?? []) {
      const worst = best[MAX_SUGGESTIONS - 1]?.distance ?? Number.POSITIVE_INFINITY;
      if (least > worst || cells > MAX_CELLS) break;
      const candidate = compared(texts[place]!);
      const distance = editDistance(target, candidate, Math.min(allowedFor(candidate.length, target.length), worst));
      if (distance !== undefined) insert(best, { distance, lengthChars: lengthChars(all[place]!), place, name: all[place]! });
    }
  }
  return best.map(({ name }) => name);
}

const allowedFor = (length: number, other: number): number => Math.max(2, Math.floor(Math.max(length, other) / 3));

/**
 * Returns the part of a name that is compared, which is its beginning, in lower case. A character takes at most two
 * UTF-16 units, so the rest need not be converted.
 */
const comparedText = (name: string): string => name.slice(0, 2 * MAX_COMPARED_CHARS).toLowerCase();

/** The characters of a text by index: the text itself if each of its characters is one UTF-16 unit. */
type Characters = string | readonly string[];

/** Returns the characters of a text that are compared. */
const compared = (text: string): Characters => (isOneUnitEach(text) ? text.slice(0, MAX_COMPARED_CHARS) : [...text].slice(0, MAX_COMPARED_CHARS));

const joined = (characters: Characters): string => (typeof characters === "string" ? characters : characters.join(""));

function lengthChars(name: string): number {
  if (isOneUnitEach(name)) return name.length;
  let chars = 0;
  for (const _ of name) chars += 1;
  return chars;
}

/** Inserts a suggestion, keeping `best` sorted and at most `MAX_SUGGESTIONS` long. */
function insert(best: Suggestion[], added: Suggestion): void {
  const order = (other: Suggestion): number => other.distance - added.distance || other.lengthChars - added.lengthChars || other.place - added.place;
  const at = best.findIndex((other) => order(other) > 0);
  best.splice(at === -1 ? best.length : at, 0, added);
  best.length = Math.min(best.length, MAX_SUGGESTIONS);
}

/**
 * The letter counts of a text. They give a lower bound of its distance from another text in one pass, because every
 * edit removes at most one letter and adds at most one.
 */
class Letters {
  /**
   * The number of occurrences of each letter. Letters that share their last seven bits are counted together, which can
   * only lower the bound.
   */
  readonly #counts = new Int16Array(128);
  /** The counts that the letters of another text leave over. */
  readonly #left = new Int16Array(128);
  readonly #length: number;
  readonly #isExact: boolean;

  constructor(text: string) {
    this.#length = Math.min(text.length, MAX_COMPARED_CHARS);
    this.#isExact = isOneUnitEach(text);
    for (let i = 0; i < this.#length; i++) this.#counts[text.charCodeAt(i) & 127]! += 1;
  }

  /** Returns a lower bound of the distance to `text`. */
  leastDistance(text: string): number {
    const left = this.#left;
    left.set(this.#counts);
    const length = Math.min(text.length, MAX_COMPARED_CHARS);
    // The number of letters that `text` has and this text lacks.
    let added = 0;
    let isExact = this.#isExact;
    for (let i = 0; i < length; i++) {
      const unit = text.charCodeAt(i);
      if (unit >= 0xd800 && unit < 0xe000) isExact = false;
      if (--left[unit & 127]! < 0) added += 1;
    }
    return isExact ? Math.max(added, this.#length - length + added) : 0;
  }
}

const isOneUnitEach = (text: string): boolean => !/[\ud800-\udfff]/.test(text);

/** The current row of the distance table. */
const row = /* @__PURE__ */ new Uint16Array(MAX_COMPARED_CHARS + 1);

/** The number of cells that have been computed for one misspelt name. */
let cells = 0;

/** Returns the Levenshtein distance, or `undefined` if it exceeds `allowed`, usually without computing all rows. */
function editDistance(a: Characters, b: Characters, allowed: number): number | undefined {
  if (Math.abs(a.length - b.length) > allowed) return undefined;
  // The common prefix and suffix need no edits.
  let [start, aEnd, bEnd] = [0, a.length, b.length];
  while (start < aEnd && start < bEnd && a[start] === b[start]) start += 1;
  while (aEnd > start && bEnd > start && a[aEnd - 1] === b[bEnd - 1]) [aEnd, bEnd] = [aEnd - 1, bEnd - 1];
  const columns = bEnd - start;
  for (let i = 0; i <= columns; i++) row[i] = i;
  for (let i = 0; i < aEnd - start; i++) {
    // Cells farther from the diagonal than `allowed` have a distance above `allowed`.
    const [first, last] = [Math.max(0, i - allowed), Math.min(columns, i + allowed + 1)];
    cells += last - first;
    let diagonal = row[first]!;
    let least = (row[first] = first === 0 ? i + 1 : allowed + 1);
    for (let j = first; j < last; j++) {
      const substituted = diagonal + (a[start + i] === b[start + j] ? 0 : 1);
      diagonal = row[j + 1]!;
      row[j + 1] = Math.min(substituted, diagonal + 1, row[j]! + 1);
      least = Math.min(least, row[j + 1]!);
    }
    // The smallest distance of a row never decreases from one row to the next.
    if (least > allowed) return undefined;
  }
  const distance = row[columns]!;
  return distance <= allowed ? distance : undefined;
}
