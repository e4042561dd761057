/** The search language: words, patterns with `*` and `?`, and `/regular expressions/`. */

import type { TensorInfo } from "zstn";
import { Turns } from "../engine/turns.js";
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
      const name = tensor.name.toLowerCase();
      let others: string[] | undefined;
      // Most words are parts of names, so that the other texts are seldom needed.
      return patterns.every((pattern) => pattern(name) || (others ??= otherTexts(tensor)).some(pattern));
    },
  };
}

const otherTexts = (tensor: TensorInfo): string[] => [tensor.dtype, typeOf(tensor), tensor.shape.join("x"), tensor.shape.join("×")].map((text) => text.toLowerCase());

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
/** The number of characters of a search that are compared with names. */
const MAX_COMPARED_CHARS = 100;

/** Returns the tensors whose names are most similar to a text, by the number of its letter triples that they contain. */
export async function nearest(text: string, tensors: Iterable<TensorInfo>, signal: AbortSignal): Promise<TensorInfo[]> {
  const wanted = [...triples(text.slice(0, MAX_COMPARED_CHARS))];
  const turns = new Turns();
  const best: { readonly tensor: TensorInfo; readonly likeness: number }[] = [];
  for (const tensor of tensors) {
    const name = ` ${tensor.name.toLowerCase()} `;
    let shared = 0;
    for (const triple of wanted) if (name.includes(triple)) shared += 1;
    const likeness = shared / Math.max(1, wanted.length);
    if (likeness >= MIN_LIKENESS) {
      const at = best.findIndex((other) => likeness > other.likeness || (likeness === other.likeness && tensor.name.length < other.tensor.name.length));
      best.splice(at < 0 ? best.length : at, 0, { tensor, likeness });
      best.length = Math.min(best.length, MAX_NEAREST);
    }
    if (turns.isOver()) await turns.next(signal);
  }
  return best.map(({ tensor }) => tensor);
}

function triples(text: string): Set<string> {
  const padded = ` ${text.toLowerCase()} `;
  const all = new Set<string>();
  for (let i = 0; i + 3 <= padded.length; i++) all.add(padded.slice(i, i + 3));
  return all;
}
