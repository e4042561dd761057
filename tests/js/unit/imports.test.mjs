/** Imports between modules, including types, have no cycles. */

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../../", import.meta.url));

/** Returns the files that each file below `folder` imports. */
function importsBelow(folder) {
  const files = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith(".ts") && !name.endsWith(".d.ts")).map((name) => join(folder, name));
  const known = new Set(files);
  const targets = (file) => [...readFileSync(file, "utf8").matchAll(/\bfrom "(\.[^"]+)\.js"/g)].map(([, path]) => join(dirname(file), `${path}.ts`));
  return new Map(files.map((file) => [file, targets(file).filter((target) => known.has(target))]));
}

/** Returns the files of an import cycle, in order; `undefined` if there is none. */
function cycleIn(imports) {
  const done = new Set();
  const visit = (file, path) => {
    if (path.includes(file)) return path.slice(path.indexOf(file));
    if (done.has(file)) return undefined;
    for (const target of imports.get(file)) {
      const cycle = visit(target, [...path, file]);
      if (cycle) return cycle;
    }
    done.add(file);
    return undefined;
  };
  for (const file of imports.keys()) {
    const cycle = visit(file, []);
    if (cycle) return cycle;
  }
  return undefined;
}

for (const folder of ["wasm/ts", "web-demo/src"]) {
  test(`${folder} has no import cycle`, () => {
    const imports = importsBelow(join(root, folder));
    assert.ok(imports.size > 20 && [...imports.values()].flat().length > 50, "the imports are found");
    assert.deepEqual(cycleIn(imports)?.map((file) => relative(root, file)), undefined);
  });
}

test("a cycle is found", () => {
  assert.deepEqual(cycleIn(new Map([["a", ["b"]], ["b", ["c"]], ["c", ["b"]]])), ["b", "c"]);
});
