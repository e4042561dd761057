/** The random choice of sentences from documents. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { choose, sentences, usual } from "../documents/sentences.mjs";

test("sentences are found in prose alone", () => {
  const text = [
    "# A heading of four words",
    "",
    "It reads files. `zstn` also packs them (since 0.1). See e.g. this one, too.",
    "- A point of a list, in",
    "  two lines.",
    "| a cell. With a sentence in it | and another one |",
    "```sh",
    "zstn pack model.safetensors. And more words.",
    "```",
    "![a picture of something else](x.png)",
    "Too short.",
  ].join("\n");
  assert.deepEqual(sentences(text), [
    { line: 3, text: "`zstn` also packs them (since 0.1)." },
    { line: 3, text: "See e.g. this one, too." },
    { line: 4, text: "A point of a list, in two lines." },
  ]);
});

test("a seed chooses the same sentences, each once", () => {
  const paths = usual();
  assert.ok(paths.length > 25, `${paths.length} pages`);
  const [first, again, other] = [11, 11, 12].map((seed) => choose(paths, seed, 20));
  assert.deepEqual(first, again);
  assert.notDeepEqual(first, other);
  assert.equal(new Set(first.map(({ path, line, text }) => `${path}:${line} ${text}`)).size, 20);
  assert.ok(new Set(first.map(({ path }) => path)).size > 5);
});
