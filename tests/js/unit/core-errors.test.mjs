import assert from "node:assert/strict";
import { test } from "node:test";
import { FormatError, InternalError, InvalidInputError, LimitError, UnsupportedError, ZstnError } from "../../../wasm/dist/errors.js";
import { Instance } from "../../../wasm/dist/instance.js";

const instance = (onTrap = () => {}) => new Instance({}, onTrap);
const thrown = (value) => () => instance().call(() => { throw value; });

for (const [kind, type] of [["malformed", FormatError], ["unsupported", UnsupportedError], ["limit", LimitError]]) {
  test(`the core's "${kind}" is a ${type.name}, with its place`, () => {
    assert.throws(thrown(`${kind}\nsome-rule\n7\n3\nw\nxIt is so.\nReally.`), (error) => {
      assert.ok(error instanceof type && error instanceof ZstnError);
      assert.deepEqual([error.name, error.code, error.rule, error.offset, error.tensor, error.message], [type.name, kind, "some-rule", 7, "w\nx", "It is so.\nReally."]);
      return true;
    });
  });
}

test("a wrong call of the core is an InvalidInputError", () => {
  assert.throws(thrown("invalid_input\n\n\n\nNo."), InvalidInputError);
});

test("messages become sentences", () => {
  assert.throws(thrown("malformed\n\n\n\nthe file is empty (at byte 0)"), { message: "The file is empty (at byte 0).", rule: undefined, offset: undefined, tensor: undefined });
});

test("a trap is an internal error, with its cause", () => {
  const trap = new WebAssembly.RuntimeError("unreachable");
  assert.throws(thrown(trap), (error) => error instanceof InternalError && error.code === "internal" && error.cause === trap && /unreachable/.test(error.message));
});

test("what does not throw comes back", () => {
  assert.equal(instance().call(() => 7), 7);
});

test("an instance that has trapped is given up: it is not called again, and nothing of it is freed", () => {
  let trapped = 0;
  const given = instance(() => (trapped += 1));
  assert.throws(() => given.call(() => { throw "malformed\n\n\n\nno"; }), FormatError);
  assert.deepEqual([trapped, given.call(() => 7)], [0, 7]);
  assert.throws(() => given.call(() => { throw new WebAssembly.RuntimeError("unreachable"); }), InternalError);
  assert.equal(trapped, 1);
  assert.throws(() => given.call(() => assert.fail("called")), { name: "ModelClosedError", code: "closed", message: /Open the model again/ });
  given.free({ free: () => assert.fail("freed") });
  assert.equal(trapped, 1);
});
