/**
 * `using model = await open(…)` closes the model at the end of the block. Node 20 has the symbol but not the syntax, so
 * TypeScript compiles it.
 */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { symlinkSync, writeFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { open } from "zstn";
import { scratchFolder } from "../support/scratch.mjs";
import { vectorPath } from "../support/vectors.mjs";

const run = promisify(execFile);
const modules = fileURLToPath(new URL("../../../node_modules", import.meta.url));
const path = vectorPath("zstn", "all_dtypes.zstn");

test("disposing is closing, once and again", async () => {
  const model = await open(path);
  const reading = model.tensor("t.f32");
  model[Symbol.dispose]();
  await assert.rejects(reading, { code: "closed" });
  model[Symbol.dispose]();
  model.close();
  assert.ok(!Object.keys(model).includes("undefined") && !("undefined" in model));
});

const PROGRAM = `
import { open } from "zstn";
import type { Model } from "zstn";
export async function read(path: string): Promise<[Model, number]> {
  using model = await open(path);
  await using another = await open(path);
  void another;
  return [model, (await model.tensor("t.f32")).data.length];
}
`;

test("a block that ends, ends its model", async () => {
  const project = scratchFolder();
  mkdirSync(join(project, "node_modules/@types"), { recursive: true });
  for (const name of ["zstn", "@types/node", "undici-types"]) symlinkSync(join(modules, name), join(project, "node_modules", name), "junction");
  writeFileSync(join(project, "package.json"), '{"type": "module"}');
  writeFileSync(join(project, "main.ts"), PROGRAM);
  const compilerOptions = { module: "NodeNext", target: "ES2022", lib: ["ES2022"], types: ["node"], strict: true, skipLibCheck: false };
  writeFileSync(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["main.ts"] }));
  const { stdout } = await run(process.execPath, [join(modules, "typescript/bin/tsc"), "--project", project]).catch((error) => error);
  assert.equal(stdout, "");
  const { read } = await import(pathToFileURL(join(project, "main.js")).href);
  const [model, length] = await read(path);
  assert.equal(length, 100);
  await assert.rejects(model.tensor("t.f32"), { code: "closed" });
});
