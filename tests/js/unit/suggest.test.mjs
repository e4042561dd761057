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

/** Computes the same suggestions by comparing every name in full. */
function plainly(wanted, all) {
  const distance = (a, b) => {
    let row = Array.from({ length: b.length + 1 }, (_, i) => i);
    for (let i = 0; i < a.length; i++) {
      const next = [i + 1];
      for (let j = 0; j < b.length; j++) next.push(Math.min(row[j] + (a[i] === b[j] ? 0 : 1), row[j + 1] + 1, next[j] + 1));
      row = next;
    }
    return row[b.length];
  };
  const target = [...wanted.toLowerCase()];
  const found = all.flatMap((name, place) => {
    const text = [...name.toLowerCase()];
    const near = target.length >= 3 && text.join("").includes(target.join("")) ? 1 : distance(target, text);
    return near <= Math.max(2, Math.floor(Math.max(text.length, target.length) / 3)) ? [{ name, near, length: [...name].length, place }] : [];
  });
  return found.sort((a, b) => a.near - b.near || a.length - b.length || a.place - b.place).slice(0, 3).map(({ name }) => name);
}

test("names that are left out early would not have been suggested", () => {
  let state = 7;
  const below = (limit) => Math.floor(((state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32) * limit);
  const letters = [..."abAB.01\u{1F600}\u{1F601}é"];
  const word = () => Array.from({ length: below(9) }, () => letters[below(letters.length)]).join("");
  for (let round = 0; round < 300; round++) {
    const all = [...new Set(Array.from({ length: 1 + below(30) }, word))];
    const wanted = word();
    assert.deepEqual(suggestNames(wanted, all), plainly(wanted, all), JSON.stringify([wanted, all]));
  }
});

test("the time is bounded for 100,000 names without any likeness", () => {
  let state = 7;
  const below = (limit) => Math.floor(((state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32) * limit);
  const all = Array.from({ length: 100_000 }, () => Array.from({ length: 60 }, () => "abcdefgh._"[below(10)]).join(""));
  const wanted = `${all[500].slice(0, 30)}xx${all[500].slice(33)}`;
  /** Returns the processor time of several runs, in microseconds. A single run can be shorter than a tick of the system's clock. */
  const timeOf = (work) => {
    const before = process.cpuUsage();
    for (let run = 0; run < 8; run++) work();
    const { user, system } = process.cpuUsage(before);
    return user + system;
  };
  assert.equal(suggestNames(wanted, all)[0], all[500]);
  const onePass = timeOf(() => all.filter((name) => /x.*y/.test(name.toLowerCase())));
  const own = timeOf(() => suggestNames(wanted, all));
  assert.ok(own < 40 * onePass, `${own} µs for 8 runs, 8 passes over the names ${onePass} µs`);
});
