/** The names of indices, from the table that the tests of all languages run, and the choice among them. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { chooseFiles, isModelFile } from "../../../wasm/dist/hub/choice.js";
import { parseIndexName } from "../../../wasm/dist/hub/index-name.js";

const { names, others } = JSON.parse(readFileSync(new URL("../../names.json", import.meta.url)));

test("the names of indices are recognised", () => {
  for (const { plain, packed, index = false, variant = false } of names) {
    for (const [name, extension] of [[plain, "safetensors"], [packed, "zstn"]]) {
      const parsed = parseIndexName(name);
      assert.equal(parsed?.extension, index ? extension : undefined, name);
      assert.equal(parsed?.hasVariant ?? false, variant, name);
      assert.ok(isModelFile(name), name);
    }
  }
  for (const name of others) assert.equal(parseIndexName(name), undefined, name);
});

test("the first of several GGUF files and indices of PyTorch files and Keras are chosen", () => {
  for (const ending of ["", ".zstn"]) {
    const [first, second] = ["00001", "00002"].map((number) => `q/m-${number}-of-00002.gguf${ending}`);
    assert.deepEqual(chooseFiles([second, first]), [first]);
    assert.deepEqual(chooseFiles([second, first], "q/"), [first]);
    assert.deepEqual(chooseFiles([second]), [second]);
    assert.deepEqual(chooseFiles([first, second, `q/n.gguf${ending}`], "q/"), [first, `q/n.gguf${ending}`]);
  }
  const index = "pytorch_model.bin.index.json";
  assert.ok(isModelFile(index));
  assert.deepEqual(chooseFiles(["pytorch_model-00001-of-00002.bin", index, "config.json"]), [index]);
  assert.deepEqual(chooseFiles([index, "model.safetensors"]), ["model.safetensors"]);
  const keras = ["a/m.weights.json", "a/m_00000.weights.h5", "a/m_00001.weights.h5"];
  assert.deepEqual(chooseFiles(keras), [keras[0]]);
  assert.deepEqual(chooseFiles(keras, "a/"), [keras[0]]);
  assert.deepEqual(chooseFiles(["config.json", "model.weights.h5"]), ["model.weights.h5"]);
});

test("an index without a variant is preferred", () => {
  const [plain, variant, older] = ["m.zstn.index.json", "m.zstn.index.fp16.json", "m.zstn.bf16.index.json"];
  assert.deepEqual(chooseFiles([variant, plain, older]), [plain]);
  assert.deepEqual(chooseFiles([variant]), [variant]);
  assert.deepEqual(chooseFiles([older, variant]), [older, variant]);
});
