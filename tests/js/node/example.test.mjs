/** The example of the package, run as its README says. */

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { vectorPath } from "../support/vectors.mjs";

const program = fileURLToPath(new URL("../../../wasm/examples/read-tensor.mjs", import.meta.url));
const run = (...args) => spawnSync(process.execPath, [program, ...args], { encoding: "utf8" });
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
