/** ONNX, msgpack, TensorFlow Lite and HDF5 files, Keras models and tar archives: values, rows, values in other files, and the refusal of damaged files. */

import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { open } from "zstn";
import { pack } from "../support/cli.mjs";
import { onnxModel } from "../support/onnx-model.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { answerRange, startServer } from "../support/server.mjs";
import { badForeign, goodForeign, refusalOf, sha256, vectorPath } from "../support/vectors.mjs";

const FOLDERS = ["onnx", "msgpack", "tflite", "hdf5", "keras", "tar"];
const scratch = scratchFolder();
let server;

before(async () => {
  server = await startServer((request, response) => answerRange(request, response, readFileSync(vectorPath(...request.url.slice(1).split("/")))));
});
after(() => server?.stop());

const openFile = (folder, file) => open(new File([readFileSync(vectorPath(folder, file))], file));
const sources = {
  "a path": (folder, file) => open(vectorPath(folder, file)),
  "a File": openFile,
  HTTP: (folder, file) => open(`${server.url}${folder}/${file}`),
};

for (const folder of FOLDERS) {
  for (const entry of goodForeign(folder)) {
    test(`${entry.file}: ${entry.exercises}`, async () => {
      for (const [place, openFrom] of Object.entries(sources)) {
        const model = await openFrom(folder, entry.file);
        assert.equal(model.kind, folder);
        assert.deepEqual([...model.tensors.keys()].sort(), entry.tensors.map(({ name }) => name).sort());
        for (const { name, dtype, shape, values_sha256 } of entry.tensors) {
          const tensor = await model.tensor(name);
          assert.deepEqual([tensor.dtype, tensor.shape], [dtype, shape], name);
          assert.equal(sha256(tensor.bytes), values_sha256, `${name} from ${place}`);
          if (shape[0] > 1) {
            const rows = await model.tensor(name, { rows: [1, 2] });
            assert.deepEqual(rows.bytes, tensor.bytes.subarray(tensor.bytes.length / shape[0], (2 * tensor.bytes.length) / shape[0]), name);
          }
        }
        for (const [key, text] of Object.entries(entry.metadata_text ?? {})) assert.equal(model.metadata[key], text, key);
        model.close();
      }
    });
  }

  for (const vector of badForeign(folder)) {
    test(`${vector.file} is refused, or lists what cannot be read: ${vector.breaks}`, async () => {
      const readAll = async (model) => {
        for (const error of model.unreadable.values()) throw error;
        for (const name of model.tensors.keys()) await model.tensor(name);
      };
      await assert.rejects(openFile(`${folder}-bad`, vector.file).then(readAll), refusalOf(vector));
    });
  }
}

test("a file without its name is not an ONNX model, and the error states why", async () => {
  const bytes = new Uint8Array(readFileSync(vectorPath("onnx", "metadata.onnx")));
  await assert.rejects(open(bytes), /does not end in \.onnx/);
  assert.equal((await open(new File([bytes], "M.ONNX"))).kind, "onnx");
});

test("values in other files are read from the folder of the model", async (t) => {
  const weights = Uint8Array.from({ length: 40 }, (_, i) => i);
  const model = onnxModel([
    { name: "own", shape: [3], raw: [1, 2, 3] },
    { name: "far", shape: [4, 5], external: { location: "data/w 1.bin", offset: "20", length: "20" } },
    { name: "lost", shape: [2], external: { location: "missing.bin" } },
  ]);
  mkdirSync(join(scratch, "data"), { recursive: true });
  writeFileSync(join(scratch, "data/w 1.bin"), weights);
  writeFileSync(join(scratch, "model.onnx"), model);
  const own = await startServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, "http://x").pathname);
    if (path === "/a/model.onnx") return answerRange(request, response, Buffer.from(model));
    if (path === "/a/data/w 1.bin") return answerRange(request, response, Buffer.from(weights));
    response.writeHead(404).end();
  });
  t.after(() => own.stop());
  const files = { "data/w 1.bin": new Blob([weights]) };
  for (const opened of [
    await open(join(scratch, "model.onnx")),
    await open(`${own.url}a/model.onnx`),
    await open(new File([model], "model.onnx"), { siblings: (name) => files[name] }),
  ]) {
    assert.deepEqual([...opened.tensors.keys()], ["own", "far"]);
    assert.deepEqual((await opened.tensor("far")).bytes, weights.subarray(20));
    assert.deepEqual((await opened.tensor("far", { rows: [2, 3] })).bytes, weights.subarray(30, 35));
    assert.deepEqual([...opened.unreadable.keys()], ["lost"]);
    assert.match(opened.unreadable.get("lost").message, /missing\.bin/);
    opened.close();
  }
});

test("values in other files are read from packed files, beside plain and packed models", async (t) => {
  const weights = Uint8Array.from({ length: 40 }, (_, i) => i);
  const model = onnxModel([
    { name: "own", shape: [3], raw: [1, 2, 3] },
    { name: "far", shape: [4, 5], external: { location: "data/far.onnx_data", offset: "20", length: "20" } },
    { name: "lost", shape: [2], external: { location: "missing.bin" } },
    { name: "itself", shape: [2], external: { location: "packed.onnx" } },
  ]);
  const folder = join(scratch, "packed");
  mkdirSync(join(folder, "data"), { recursive: true });
  const at = (name) => join(folder, name);
  writeFileSync(at("packed.onnx"), model);
  writeFileSync(at("far.onnx_data"), weights);
  await pack(at("packed.onnx"), at("packed.onnx.zstn"));
  await pack(at("far.onnx_data"), at("data/far.onnx_data.zstn"));
  const own = await startServer((request, response) => {
    const path = at(decodeURIComponent(new URL(request.url, "http://x").pathname).slice(1));
    return existsSync(path) ? answerRange(request, response, readFileSync(path)) : response.writeHead(404).end();
  });
  t.after(() => own.stop());
  const siblings = (name) => (existsSync(at(name)) ? new Blob([readFileSync(at(name))]) : undefined);
  for (const name of ["packed.onnx", "packed.onnx.zstn"]) {
    for (const opened of [await open(at(name)), await open(`${own.url}${name}`), await open(new File([readFileSync(at(name))], name), { siblings })]) {
      assert.deepEqual([...opened.tensors.keys()], ["own", "far"]);
      assert.deepEqual((await opened.tensor("far")).bytes, weights.subarray(20));
      assert.deepEqual((await opened.tensor("far", { rows: [2, 3] })).bytes, weights.subarray(30, 35));
      assert.deepEqual([...opened.unreadable.keys()].sort(), ["itself", "lost"]);
      opened.close();
    }
  }
  // A packed file that is damaged, and a file that is none, refuse the tensors in it alone.
  const far = readFileSync(at("data/far.onnx_data.zstn"));
  for (const bytes of [far.subarray(0, far.length - 1), weights]) {
    writeFileSync(at("data/far.onnx_data.zstn"), bytes);
    for (const name of ["packed.onnx", "packed.onnx.zstn"]) {
      const opened = await open(at(name));
      assert.deepEqual([...opened.tensors.keys()], ["own"]);
      assert.match(opened.unreadable.get("far").message, /data\/far\.onnx_data.*packed file/);
      opened.close();
    }
  }
});
