import assert from "node:assert/strict";
import { test } from "node:test";
import { closeMatches } from "../../../wasm/dist/suggest.js";

const names = ["transformer.wte.weight", "transformer.wpe.weight", "transformer.h.0.ln_1.weight", "transformer.h.0.ln_1.bias", "lm_head.weight"];

test("a slip of the finger finds the name", () => {
  assert.equal(closeMatches("transformer.wte.wieght", names)[0], "transformer.wte.weight");
  assert.equal(closeMatches("LM_HEAD.weight", names)[0], "lm_head.weight");
});

test("a part of a name finds it", () => {
  assert.deepEqual(closeMatches("wpe", names), ["transformer.wpe.weight"]);
});

test("nothing alike, nothing suggested", () => {
  assert.deepEqual(closeMatches("conv1d.kernel.momentum", names), []);
  assert.deepEqual(closeMatches("x", []), []);
});

test("never more than three", () => {
  assert.equal(closeMatches("weight", names).length, 3);
});
