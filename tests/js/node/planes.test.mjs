/** The distribution of a packed tensor's bytes over its planes. */

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { open, TensorNotFoundError } from "zstn";
import { writeLanguageModel } from "../support/checkpoint.mjs";
import { pack } from "../support/cli.mjs";
import { scratchFolder } from "../support/scratch.mjs";

const folder = scratchFolder();
const [plain, packed] = [join(folder, "model.safetensors"), join(folder, "model.zstn")];
let model;

before(async () => {
  await writeLanguageModel(plain);
  await pack(plain, packed);
  model = await open(packed);
});
after(() => model?.close());

test("every plane has its length, and what they take adds up to the frame", async () => {
  const info = model.tensors.get("lm_head.weight");
  const planes = await model.planes("lm_head.weight");
  const stored = planes.reduce((sum, { storedLength }) => sum + storedLength, 0);
  assert.ok(stored <= info.storedLength && stored > 0.999 * info.storedLength, `${stored} of ${info.storedLength}`);
  const byName = Object.fromEntries(planes.map((plane) => [plane.name, plane]));
  assert.deepEqual(Object.keys(byName), ["sign", "exponent", "mantissa"]);
  const elements = info.byteLength / 2;
  assert.equal(byName.exponent.byteLength, elements);
  assert.equal(byName.mantissa.byteLength, elements);
  assert.equal(byName.sign.byteLength, elements / 8);
  assert.match(byName.exponent.method, /^(zstd|rANS)/);
  assert.ok(byName.exponent.storedLength < 0.4 * elements);
  assert.ok(byName.mantissa.storedLength > 0.8 * elements, "noise");
});

test("tied tensors have the planes of the one they share", async () => {
  assert.deepEqual(await model.planes("transformer.wte.weight"), await model.planes("lm_head.weight"));
});

test("what has no block table has no planes to tell of", async () => {
  assert.equal(await model.planes("transformer.ln_f.weight"), undefined);
  const original = await open(plain);
  assert.equal(await original.planes("lm_head.weight"), undefined);
  original.close();
});

test("a name that is not there, and a closed model", async () => {
  await assert.rejects(model.planes("lm_head"), TensorNotFoundError);
  const other = await open(packed);
  other.close();
  await assert.rejects(other.planes("lm_head.weight"), { code: "closed" });
});

test("a model that is closed meanwhile", async () => {
  const other = await open(packed);
  const planes = other.planes("lm_head.weight");
  other.close();
  await assert.rejects(planes, { code: "closed" });
});
