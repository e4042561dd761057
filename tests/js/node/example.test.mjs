/** The examples of the package, run as a user would run them. */

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { scratchFolder } from "../support/scratch.mjs";
import { vectorPath } from "../support/vectors.mjs";

const example = (name) => fileURLToPath(new URL(`../../../wasm/examples/${name}.mjs`, import.meta.url));
const runExample = (name, ...args) => spawnSync(process.execPath, [example(name), ...args], { encoding: "utf8" });
const run = (...args) => runExample("read-tensor", ...args);
const scratch = scratchFolder();
const packed = vectorPath("zstn", "tiny_llama_level19.zstn");

test("it reads the tensor closest to 1.5 MB and finds it identical", () => {
  const { status, stdout, stderr } = run(packed, "--original", vectorPath("zstn", "tiny_llama_level19.safetensors"));
  assert.equal(status, 0, stderr);
  assert.match(stdout, /^tensor +model\.embed_tokens\.weight$/m);
  assert.match(stdout, /^dtype +BF16$/m);
  assert.match(stdout, /^original +identical, byte for byte$/m);
  const lines = stdout.trim().split("\n");
  assert.ok(lines.every((line) => line[13] === " " && line[14] !== " "), `not aligned:\n${stdout}`);
});

test("it reads a named tensor", () => {
  const { stdout } = run(packed, "model.layers.0.input_layernorm.weight");
  assert.match(stdout, /^tensor +model\.layers\.0\.input_layernorm\.weight$/m);
});

test("a difference ends with status 1", () => {
  const { status, stdout } = run(packed, "lm_head.weight", "--original", vectorPath("zstn", "tiny_llama_tied.safetensors"));
  assert.match(stdout, /DIFFERENT/);
  assert.equal(status, 1);
});

test("errors are sentences, wrong usage has a status of its own", () => {
  const missing = run(packed, "no.such.tensor");
  assert.equal(missing.status, 1);
  assert.match(missing.stderr, /^TensorNotFoundError: .*no\.such\.tensor/);
  assert.doesNotMatch(missing.stderr, /at .*\.js:/);
  assert.equal(run().status, 2);
});

test("it packs into a file, and refuses with a sentence", () => {
  const output = join(scratch, "model.zstn");
  const { status, stdout, stderr } = runExample("pack", vectorPath("zstn", "tiny_llama_tied.safetensors"), output);
  assert.equal(status, 0, stderr);
  assert.match(stdout, new RegExp(`bytes became ${statSync(output).size} `));
  const refused = runExample("pack", output, join(scratch, "again.zstn"));
  assert.equal(refused.status, 1);
  assert.match(refused.stderr, /^InvalidInputError .*already packed/);
  assert.equal(runExample("pack").status, 2);
});
