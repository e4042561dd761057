/** NPZ and PyTorch files, from paths, as a Blob and over HTTP: values, rows, unreadable tensors, and the refusal of damaged files. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { open } from "zstn";
import { answerRange, startServer } from "../support/server.mjs";
import { badForeign, goodForeign, isRefusal, refusalOf, sha256, vectorPath } from "../support/vectors.mjs";

const FOLDERS = ["npz", "pytorch"];
let server;

before(async () => {
  server = await startServer((request, response) => answerRange(request, response, readFileSync(vectorPath(...request.url.slice(1).split("/")))));
});
after(() => server?.stop());

const openBlob = (folder, file) => open(new Blob([readFileSync(vectorPath(folder, file))]));
const sources = {
  "a path": (folder, file) => open(vectorPath(folder, file)),
  "a Blob": openBlob,
  HTTP: (folder, file) => open(`${server.url}${folder}/${file}`),
};

/** Reads all tensors. Rejects if there are some that cannot be read. */
async function readAll(model) {
  for (const error of model.unreadable.values()) throw error;
  for (const name of model.tensors.keys()) await model.tensor(name);
}

for (const folder of FOLDERS) {
  for (const { file, exercises, tensors, unread, metadata = {} } of goodForeign(folder)) {
    test(`${file}: ${exercises}`, async () => {
      // NumPy stores bfloat16 as bytes without a dtype, which are listed as such.
      const refused = unread.filter((name) => name !== "bf");
      for (const [place, openFrom] of Object.entries(sources)) {
        const model = await openFrom(folder, file);
        assert.equal(model.kind, folder);
        for (const { name, dtype, shape, values_sha256 } of tensors) {
          const info = model.tensors.get(name);
          const tensor = await model.tensor(name);
          assert.deepEqual([info.dtype, info.shape, tensor.dtype, tensor.shape], [dtype, shape, dtype, shape], name);
          assert.equal(sha256(tensor.bytes), values_sha256, `${name} from ${place}`);
        }
        assert.equal(model.tensors.size, tensors.length + unread.length - refused.length);
        for (const name of refused) await assert.rejects(model.tensor(name), name);
        for (const [key, text] of Object.entries(metadata)) assert.equal(model.metadata[key], text, key);
        model.close();
      }
    });
  }

  for (const vector of badForeign(folder)) {
    test(`${vector.file} is refused: ${vector.breaks}`, async () => {
      for (const openFrom of [openBlob, sources.HTTP]) {
        await assert.rejects(openFrom(`${folder}-bad`, vector.file).then(readAll), refusalOf(vector));
      }
    });
  }
}

test("rows of a tensor in row-major order are one range", async () => {
  for (const [folder, file, name, isRange] of [["pytorch", "types.pt", "float32", true], ["pytorch", "strided.pt", "t", false], ["npz", "far-apart.npz", "a", true], ["npz", "deflated.npz", "a", false]]) {
    const model = await sources.HTTP(folder, file);
    const { shape, byteLength } = model.tensors.get(name);
    const whole = await model.tensor(name);
    const row = await model.tensor(name, { rows: [1, 2] });
    assert.deepEqual(row.bytes, whole.bytes.subarray(byteLength / shape[0], (2 * byteLength) / shape[0]), file);
    const plan = await model.plan(name, { rows: [1, 2] });
    assert.equal(plan.whole, !isRange, file);
    model.close();
  }
});

test("every truncation is refused", async () => {
  for (const [folder, file] of [["npz", "deflated.npz"], ["pytorch", "list.pt"], ["pytorch", "legacy.bin"]]) {
    const whole = readFileSync(vectorPath(folder, file));
    for (let length = 0; length < whole.length; length += 7) {
      await assert.rejects(open(new Uint8Array(whole.subarray(0, length))).then(readAll), isRefusal, `${file} cut at ${length}`);
    }
  }
});
