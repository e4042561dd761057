/** Loads the WebAssembly modules from the places that `configure` sets. */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { compress, configure, decompress, open } from "zstn";
import { vectorPath } from "../support/vectors.mjs";

test("a module that is none is refused, and the next attempt counts", async () => {
  configure({ wasm: { reader: new Uint8Array([1, 2, 3]) } });
  const path = vectorPath("zstn", "all_dtypes.zstn");
  const model = await open(path);
  assert.equal(model.tensors.size, 22, "listing needs no module");
  const [name] = model.tensors.keys();
  await assert.rejects(model.tensor(name), { name: "CoreLoadError", code: "core", message: /could not be loaded.*configure\(\{ wasm: \{ reader \} \}\)/ });
  const bytes = await readFile(new URL(import.meta.resolve("zstn/zstn_wasm_bg.wasm")));
  configure({ wasm: { reader: await WebAssembly.compile(bytes) } });
  assert.equal((await model.tensor(name)).name, name);
});

test("a module that is loaded cannot be replaced, which is said; one that is not, can", async () => {
  assert.throws(() => configure({ wasm: { reader: "elsewhere.wasm" } }), { code: "invalid_input", message: /`reader` is loaded already/ });
  configure({ wasm: { coder: new URL(import.meta.resolve("zstn/zstn_coder_bg.wasm")) } });
  assert.deepEqual(await decompress(await compress(new Uint8Array(9))), new Uint8Array(9));
});
