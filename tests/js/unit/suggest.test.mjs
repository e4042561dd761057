import assert from "node:assert/strict";
import { test } from "node:test";
import { suggestNames } from "../../../wasm/dist/suggest.js";

const names = ["transformer.wte.weight", "transformer.wpe.weight", "transformer.h.0.ln_1.weight", "transformer.h.0.ln_1.bias", "lm_head.weight"];

test("a slip of the finger finds the name", () => {
  assert.equal(suggestNames("transformer.wte.wieght", names)[0], "transformer.wte.weight");
  assert.equal(suggestNames("LM_HEAD.weight", names)[0], "lm_head.weight");
});

test("a part of a name finds it", () => {
  assert.deepEqual(suggestNames("wpe", names), ["transformer.wpe.weight"]);
});

test("nothing alike, nothing suggested", () => {
  assert.deepEqual(suggestNames("conv1d.kernel.momentum", names), []);
  assert.deepEqual(suggestNames("x", []), []);
});

test("never more than three", () => {
  assert.equal(suggestNames("weight", names).length, 3);
});

test("equally near, the shorter name comes first, and the order of the names decides between equals", () => {
  const near = ["h.10.attn.weight", "h.1.attn.weight", "h.2.attn.weight", "h.3.attn.weight"];
  assert.deepEqual(suggestNames("h.9.attn.weight", near), near.slice(1));
});

test("the same names as the command line suggests", () => {
  assert.deepEqual(suggestNames("x".repeat(100_000), names), []);
  assert.deepEqual(suggestNames("a", ["b"]), ["b"]);
  assert.deepEqual(suggestNames("\u{1F600}".repeat(3), ["\u{1F601}".repeat(3), "\u{1F600}\u{1F600}"]), ["\u{1F600}\u{1F600}"], "a character is one, however it is stored");
});
