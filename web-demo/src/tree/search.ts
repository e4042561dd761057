/** The search language: words, patterns with `*` and `?`, and `/regular expressions/`. */

import type { TensorInfo } from "zstn";
import { typeOf } from "./dtype-family.js";

/**
 * A parsed search: words, which are matched directly; a regular expression, which may take any amount of time; or an
 * invalid text.
 */
export type Search = { readonly matches: (tensor: TensorInfo) => boolean } | { readonly expression: string } | { readonly problem: string };

/** Parses the text of a search; `undefined` for an empty text, which matches everything. */
export function searchFor(text: string): Search | undefined {
  const trimmed = text.trim();
  if (trimmed === "") return undefined;
  const expression = /^\/(.+)\/$/.exec(trimmed)?.[1];
  if (expression !== undefined) return isExpression(expression) ? { expression } : { problem: "This is not a regular expression." };
  const patterns = trimmed.toLowerCase().split(/\s+/).map(patternOf);
  return {
    matches: (tensor) => {
      const { name, dtype, shape } = tensor;
      const parts = [name, dtype, typeOf(tensor), shape.join("x"), shape.join("×")].map((part) => part.toLowerCase());
      return patterns.every((pattern) => parts.some(pattern));
    },
  };
}

function isExpression(text: string): boolean {
  try {
    new RegExp(text, "i");
    return true;
  } catch {
    return false;
  }
}

/**
 * Returns a function that tests whether a text contains a word. In the word, `*` matches any characters and `?` matches
 * one. A number at either end must be a whole number: layer 3 is not layer 33. The pieces between the stars are found
 * sequentially, each at its first possible position, so that the time does not grow with their number.
 */
function patternOf(word: string): (text: string) => boolean {
  const pieces = word.split(/\*+/);
  const last = pieces.length - 1;
  const [beginsWhole, endsWhole] = [/^\d/.test(word), /\d$/.test(word)];
  return (text) => {
    let from = 0;
    for (const [i, piece] of pieces.entries()) {
      const fits = (at: number): boolean => !(i === 0 && beginsWhole && isDigit(text[at - 1])) && !(i === last && endsWhole && isDigit(text[at + piece.length]));
      let at = find(text, piece, from);
      while (at >= 0 && !fits(at)) at = find(text, piece, at + 1);
      if (at < 0) return false;
      from = at + piece.length;
    }
    return true;
  };
}

const isDigit = (character: string | undefined): boolean => character !== undefined && character >= "0" && character <= "9";

/**
 * Returns the position of the first match of a piece in a text, at `from` or later; -1 if there is no match. In the
 * piece, `?` matches any character.
 */
function find(text: string, piece: string, from: number): number {
  if (!piece.includes("?")) return text.indexOf(piece, from);
  for (let at = from; at + piece.length <= text.length; at++) {
    let length = 0;
    while (length < piece.length && (piece[length] === "?" || piece[length] === text[at + length])) length += 1;
    if (length === piece.length) return at;
  }
  return -1;
}

/** The maximum number of names that are suggested if nothing matches. */
const MAX_NEAREST = 3;
/** Names that share a smaller fraction of their letter triples are not similar. */
const MIN_LIKENESS = 0.25;

/** Returns the tensors whose names are most similar to a text, by the number of letter triples that they share. */
export function nearest(text: string, tensors: readonly TensorInfo[]): TensorInfo[] {
  const wanted = triples(text);
  return tensors
    .map((tensor) => {
      const own = triples(tensor.name);
      let shared = 0;
      for (const triple of wanted) if (own.has(triple)) shared += 1;
      return { tensor, likeness: shared / Math.max(1, wanted.size), length: own.size };
    })
    .filter(({ likeness }) => likeness >= MIN_LIKENESS)
    .sort((a, b) => b.likeness - a.likeness || a.length - b.length)
    .slice(0, MAX_NEAREST)
    .map(({ tensor }) => tensor);
}

function triples(text: string): Set<string> {
  const padded = ` ${text.toLowerCase()} `;
  const all = new Set<string>();
  for (let i = 0; i + 3 <= padded.length; i++) all.add(padded.slice(i, i + 3));
  return all;
}
