/** Flips every bit of a packed file and reads it with every function. Each read is rejected or returns the correct bytes. */

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, test } from "node:test";
import { open, pack } from "zstn";
import { safetensors } from "../support/checkpoint.mjs";
import { pack as packNatively } from "../support/cli.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { BIT_STEP } from "../support/tier.mjs";
import { isRefusal } from "../support/vectors.mjs";

const scratch = scratchFolder();

/**
 * Returns a small file, since each byte is flipped eight times. It has bit fields, a sparse and a palette frame, an
 * alias, and an empty tensor.
 */
function checkpoint() {
  const tensor = (dtype, array, shape = [array.length]) => ({ dtype, shape, bytes: new Uint8Array(array.buffer) });
  const wave = (i) => Math.sin(i * 12.9898) * 43758.5453;
  const noise = (i) => wave(i) - Math.floor(wave(i));
  const weights = new Uint16Array(new Float32Array(96).map((_, i) => (noise(i) - 0.5) / 20).buffer).filter((_, i) => i % 2 === 1);
  const sparse = new Float32Array(120);
  for (let i = 0; i < 120; i += 17) sparse[i] = noise(i);
  return {
    weights: tensor("BF16", weights, [4, 24]),
    tied: tensor("BF16", weights.slice(), [24, 4]),
    sparse: tensor("F32", sparse),
    palette: tensor("F32", new Float32Array(90).map((_, i) => [0.25, -1, 3][Math.floor(3 * noise(i))])),
    empty: tensor("I64", new BigInt64Array(0)),
  };
}

const tensors = checkpoint();
const original = safetensors(tensors);
const files = {};

before(async () => {
  writeFileSync(join(scratch, "m.safetensors"), original);
  await packNatively(join(scratch, "m.safetensors"), join(scratch, "m.zstn"));
  files["the command line's file"] = new Uint8Array(readFileSync(join(scratch, "m.zstn")));
  files["the npm package's file"] = new Uint8Array(await (await pack(new Blob([original]), { effort: "max" })).blob.arrayBuffer());
});

function isRight({ name, dtype, shape, bytes }) {
  const expected = tensors[name];
  assert.ok(expected, `there was no tensor ${name}`);
  assert.deepEqual([dtype, shape], [expected.dtype, expected.shape], name);
  assert.ok(Buffer.from(expected.bytes.buffer).equals(bytes), `other bytes in ${name}`);
}

/** Every reading function. Each reads all tensors and returns whether any was rejected. */
const WAYS = {
  tensor: async (model) => {
    let refused = false;
    for (const name of model.tensors.keys()) {
      await model.tensor(name).then(isRight, (error) => (refused = isRefusal(error)));
    }
    return refused;
  },
  stream: async (model) => {
    for await (const tensor of model.stream()) isRight(tensor);
  },
  "unpacked file": async (model) => {
    assert.ok(original.equals(await model.asSafetensorsBlob().bytes()), "another file");
  },
};

for (const which of ["the command line's file", "the npm package's file"]) {
  test(`${which}, every bit`, async (t) => {
    const file = files[which];
    assert.ok(file.length > 1000 && file.length < 4000, `${file.length} bytes`);
    const outcomes = { "refused on opening": 0, "refused on reading": 0, right: 0 };
    for (let bit = 0; bit < 8 * file.length; bit += BIT_STEP) {
      const flipped = file.slice();
      flipped[bit >> 3] ^= 1 << (bit & 7);
      const model = await open(flipped).catch((error) => isRefusal(error) && undefined);
      if (model === undefined) {
        outcomes["refused on opening"] += 1;
        continue;
      }
      try {
        assert.equal(model.tensors.size, Object.keys(tensors).length);
        const refused = {};
        for (const [way, read] of Object.entries(WAYS)) refused[way] = (await read(model).catch(isRefusal)) ?? false;
        assert.equal(refused.tensor, refused.stream);
        // A tensor without elements is read without its frame, even if the frame is damaged.
        assert.ok(refused.tensor || !refused["unpacked file"], "refused as a file alone");
        const outcome = refused.tensor ? "refused on reading" : "right";
        outcomes[outcome] += 1;
      } catch (error) {
        throw new Error(`byte ${bit >> 3}, bit ${bit & 7}`, { cause: error });
      } finally {
        model.close();
      }
    }
    t.diagnostic(`${file.length} bytes: ${JSON.stringify(outcomes)}`);
    assert.ok(outcomes["refused on opening"] > 1000 / BIT_STEP && outcomes["refused on reading"] > 1000 / BIT_STEP);
  });
}
