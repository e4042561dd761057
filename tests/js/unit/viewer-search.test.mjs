/** The viewer's search: the names that each search matches. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const entry = fileURLToPath(new URL("../../../web-demo/src/tree/search.ts", import.meta.url));
const { outputFiles } = await build({ entryPoints: [entry], bundle: true, format: "esm", write: false });
const { searchFor } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);

const TENSOR = { name: "model.layers.33.mlp.Up_proj.weight", dtype: "BF16", shape: [512, 1536] };

for (const [text, expected] of [
  ["layers.33", true],
  ["layers.3", false],
  ["3.mlp", false],
  ["33.mlp", true],
  ["layers.3?.mlp", true],
  ["layers.*.weight", true],
  ["weight*layers", false],
  ["*.up_PROJ.*", true],
  ["l*3*w", true],
  ["layers*3", true],
  ["?odel", true],
  ["weight?", false],
  ["up bf16 512x1536", true],
  ["512×1536", true],
  ["512x153", false],
  ["up f32", false],
  ["*", true],
  ["a+b", false],
]) {
  test(`"${text}" ${expected ? "matches" : "does not match"}`, () => assert.equal(searchFor(text).matches(TENSOR), expected));
}

test("no text, an expression, and one that is none", () => {
  assert.equal(searchFor("  "), undefined);
  assert.deepEqual(searchFor("/a.b/"), { expression: "a.b" });
  assert.match(searchFor("/(/").problem, /not a regular expression/);
});

test("stars do not multiply the work: a pattern of many of them ends", () => {
  const name = "a.".repeat(20_000);
  assert.equal(searchFor(`${"*a".repeat(2000)}*zz`).matches({ ...TENSOR, name }), false);
  assert.equal(searchFor(`${"*".repeat(2000)}zz`).matches({ ...TENSOR, name }), false);
});
