/** Loading the WebAssembly module from where one says. */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { init, open } from "zstn";
import { vectorPath } from "../support/vectors.mjs";

test("a module that is none is refused, and the next attempt counts", async () => {
  await assert.rejects(init(new Uint8Array([1, 2, 3])), { name: "CoreLoadError", code: "core", message: /could not be loaded/ });
  const bytes = await readFile(new URL(import.meta.resolve("zstn/zstn_wasm_bg.wasm")));
  await init(await WebAssembly.compile(bytes));
  const model = await open(vectorPath("zstn", "all_dtypes.zstn"));
  assert.equal(model.tensors.size, 22);
});
