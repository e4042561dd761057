/** Checks the tarball with publint and "Are the types wrong?". */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { publint } from "publint";
import { installPacked } from "../support/packed.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { isAll } from "../support/tier.mjs";

const run = promisify(execFile);
const modules = fileURLToPath(new URL("../../../node_modules", import.meta.url));
const project = scratchFolder();

before(() => installPacked(project));

test("publint has nothing to say", async () => {
  const { messages } = await publint({ pkgDir: join(project, "node_modules/zstn"), strict: true, pack: false });
  const isMissing = ({ code, path }) => code === "FILE_DOES_NOT_EXIST" && path.at(-1) === "./zstn_threads_bg.wasm";
  assert.deepEqual(isAll ? messages : messages.filter((message) => !isMissing(message)), []); // only published builds contain it
});

test("the licences of what the modules contain are in the package", async () => {
  const text = await readFile(join(project, "node_modules/zstn/THIRD-PARTY-LICENSES.txt"), "utf8");
  assert.match(text, /^wasm-bindgen \d/m);
  assert.match(text, /Permission is hereby granted/);
});

test("types are found by everyone who can import ES modules", async () => {
  const tarball = join(project, readdirSync(project).find((name) => name.endsWith(".tgz")));
  const modulesOfWasm = ["zstn_wasm_bg.wasm", "zstn_formats_bg.wasm", "zstn_coder_bg.wasm", "zstn_gpu_bg.wasm", "zstn_threads_bg.wasm"];
  const attw = [join(modules, "@arethetypeswrong/cli/dist/index.js"), tarball, "--profile", "esm-only", "--format", "json", "--exclude-entrypoints", ...modulesOfWasm];
  const { stdout } = await run(process.execPath, attw).catch((error) => error);
  const { analysis } = JSON.parse(stdout);
  assert.deepEqual(Object.keys(analysis.entrypoints).sort(), [".", "./hub", "./package.json", "./service-worker", "./threads", "./threads-worker", "./worker"]);
  // A package of ES modules need not resolve in CommonJS. All other modes of resolution are checked.
  const problems = analysis.problems.filter(({ resolutionKind }) => !["node10", "node16-cjs"].includes(resolutionKind));
  assert.deepEqual(problems, []);
});
