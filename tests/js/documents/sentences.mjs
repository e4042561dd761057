/**
 * Chooses random sentences from README.md and docs, for a reader who does not know their context:
 *
 *     node tests/js/documents/sentences.mjs --seed 11 [--count 20] [--under docs/npm]
 *
 * Each sentence has to be clear and true. The same seed chooses the same sentences of the same documents. Pages for
 * implementers of decoders (docs/formats) are only included with `--under`.
 */

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const root = fileURLToPath(new URL("../../../", import.meta.url));

/** Returns the Markdown files below a folder, sorted. */
export function pages(under) {
  const below = readdirSync(join(root, under), { recursive: true, withFileTypes: true });
  return below
    .filter((entry) => entry.isFile() && entry.name.endsWith(".md"))
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => !path.includes("node_modules"))
    .sort();
}

/** Returns the sentences of a Markdown text, each with the number of its first line. Code, tables and headings contain none. */
export function sentences(text) {
  const found = [];
  let inCode = false;
  let paragraph;
  for (const [number, line] of [...text.split("\n"), ""].entries()) {
    if (line.startsWith("```")) inCode = !inCode;
    const isProse = !inCode && !/^\s*(```|\||#|!\[|<|$)/.test(line);
    const isItem = /^\s*(?:[-*]|\d+\.)\s/.test(line);
    if (paragraph && (!isProse || isItem)) {
      found.push(...split(paragraph));
      paragraph = undefined;
    }
    if (!isProse) continue;
    paragraph ??= { line: number + 1, text: "" };
    paragraph.text += ` ${line.replace(/^\s*(?:[-*]|\d+\.)\s+/, "").trim()}`;
  }
  return found;
}

/** Splits a paragraph into sentences. A full stop ends a sentence if a capital letter, code or emphasis follows. */
function split({ line, text }) {
  const parts = text.trim().split(/(?<=[.?!][)*_"]{0,3})\s+(?=[A-Z`*[_"(])/);
  return parts.filter((part) => part.split(/\s+/).length >= 4).map((part) => ({ line, text: part }));
}

/** Returns a generator of numbers from 0 to 1, determined by the seed (mulberry32). */
export function numbers(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Returns README.md and the pages of docs for users. */
export function usual() {
  const formats = join(root, "docs/formats");
  return [join(root, "README.md"), ...pages("docs").filter((path) => !path.startsWith(formats))];
}

/** Returns `count` random sentences of these pages, in the order of their choice. */
export function choose(paths, seed, count) {
  const all = paths.flatMap((path) => sentences(readFileSync(path, "utf8")).map((sentence) => ({ path: path.slice(root.length), ...sentence })));
  const next = numbers(seed);
  const chosen = [];
  while (chosen.length < count && all.length > 0) chosen.push(...all.splice(Math.floor(next() * all.length), 1));
  return chosen;
}

function main() {
  const { values } = parseArgs({ options: { seed: { type: "string", default: "1" }, count: { type: "string", default: "20" }, under: { type: "string" } } });
  const [seed, count] = [Number(values.seed), Number(values.count)];
  if (!Number.isInteger(seed) || !Number.isInteger(count) || count < 1) throw new Error("--seed and --count are whole numbers");
  const paths = values.under ? pages(values.under) : usual();
  for (const [number, { path, line, text }] of choose(paths, seed, count).entries()) console.log(`${number + 1}. ${text}\n   ${path}:${line}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main();
