/** GGUF and NPY files, from paths, as a Blob and over HTTP: values, rows, metadata, and the refusal of damaged files. */

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { open } from "zstn";
import { packAll } from "../support/cli.mjs";
import { ggufFile } from "../support/gguf.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { answerRange, startServer } from "../support/server.mjs";
import { badForeign, goodForeign, isFirstOfSet, isRefusal, refusalOf, sha256, vectorPath } from "../support/vectors.mjs";

const FOLDERS = ["gguf", "npy"];
const scratch = scratchFolder();
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

/** The tensors of an entry of a manifest. An NPY file is one tensor with an empty name. */
const tensorsOf = ({ tensors, ...array }) => tensors ?? [{ name: "", ...array }];

/** Reads all tensors. Returns their bytes by name. */
const readAll = async (model) => {
  const read = {};
  for (const name of model.tensors.keys()) read[name] = (await model.tensor(name)).bytes;
  return read;
};

/** Creates a GGUF file with one F32 tensor whose metadata contain the words of a tokenizer. */
function withTokenizer(words, values) {
  const number = (value, bytes) => (bytes === 4 ? new Uint8Array(Uint32Array.of(value).buffer) : new Uint8Array(BigUint64Array.of(BigInt(value)).buffer));
  const string = (text) => Buffer.concat([number(text.length, 8), Buffer.from(text)]);
  const tokens = [string("tokenizer.ggml.tokens"), number(9, 4), number(8, 4), number(words.length, 8), ...words.map(string)];
  const tensor = [string("w"), number(1, 4), number(values.length, 8), number(0, 4), number(0, 8)];
  const header = Buffer.concat([Buffer.from("GGUF"), number(3, 4), number(1, 8), number(1, 8), ...tokens, ...tensor]);
  return Buffer.concat([header, Buffer.alloc(-header.length & 31), new Uint8Array(values.buffer)]);
}

test("the manifests contain enough files for these tests", () => {
  assert.ok(goodForeign("gguf").length >= 20 && badForeign("gguf").length > 45);
  assert.ok(goodForeign("npy").length > 20 && badForeign("npy").length > 20);
});

for (const folder of FOLDERS) {
  for (const entry of goodForeign(folder)) {
    test(`${entry.file}: ${entry.exercises}`, async () => {
      const tensors = tensorsOf(entry);
      for (const [place, openFrom] of Object.entries(sources)) {
        const model = await openFrom(folder, entry.file);
        assert.equal(model.kind, folder);
        if (isFirstOfSet(entry.file) && model.tensors.size > tensors.length) {
          assert.deepEqual([...model.tensors.keys()], ["a", "b"]);
          model.close();
          continue;
        }
        assert.deepEqual([...model.tensors.keys()], tensors.map(({ name }) => name));
        let bytes = 0;
        for (const { name, dtype, shape, stored, length, values_sha256 } of tensors) {
          const info = model.tensors.get(name);
          const tensor = await model.tensor(name);
          assert.deepEqual([info.dtype, info.shape, tensor.dtype, tensor.shape], [dtype, shape, dtype, shape], name);
          assert.equal(sha256(tensor.bytes), values_sha256, `${name} from ${place}`);
          assert.equal(tensor.bytes.length, info.byteLength);
          // Only elements in blocks have a format; the format of the others is their dtype.
          if (folder === "gguf") {
            assert.equal(info.format ?? dtype, stored);
            assert.equal(info.storedLength, length);
          } else assert.equal(info.format, undefined);
          bytes += info.byteLength;
        }
        assert.equal(model.originalSize, bytes);
        assert.equal(model.unreadable.size, 0);
        for (const [key, text] of Object.entries(entry.metadata_text ?? {})) assert.equal(model.metadata[key], text, key);
        if (folder === "npy") assert.deepEqual(model.metadata, {});
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

test("rows of tensors in blocks fetch the blocks of those rows", async () => {
  for (const file of ["k-blocks.gguf", "big-endian.gguf"]) {
    const model = await sources.HTTP("gguf", file);
    for (const [name, { shape, storedLength, byteLength, format }] of model.tensors) {
      const whole = await model.tensor(name);
      const rows = shape[0];
      const plan = await model.plan(name, { rows: [1, 2] });
      assert.deepEqual([plan.whole, plan.bytes], [false, storedLength / rows], `${name} ${format}`);
      const row = await model.tensor(name, { rows: [1, 2] });
      assert.deepEqual(row.shape, [1, ...shape.slice(1)]);
      assert.deepEqual(row.bytes, whole.bytes.subarray(byteLength / rows, (2 * byteLength) / rows), name);
    }
    model.close();
  }
});

test("a header longer than the first read takes few requests over HTTP", async (t) => {
  const words = Array.from({ length: 20_000 }, (_, i) => `word ${i * 7919}`);
  const values = Float32Array.from({ length: 300_000 }, (_, i) => i / 3);
  const file = withTokenizer(words, values);
  const own = await startServer((request, response) => answerRange(request, response, file));
  t.after(() => own.stop());
  const model = await open(`${own.url}model.gguf`);
  assert.ok(model.stats.requests >= 2 && model.stats.requests <= 4, `${model.stats.requests} requests`);
  assert.ok(model.stats.bytesFetched < file.length / 2, `${model.stats.bytesFetched} of ${file.length} bytes`);
  assert.match(model.metadata["tokenizer.ggml.tokens"], /^\["word 0", "word 7919", .*20000 elements\)\]$/);
  const before = model.stats.requests;
  assert.deepEqual((await model.tensor("w")).data, values);
  assert.equal(model.stats.requests, before + 1);
});

test("rows of an array are one range, unless the first dimension is the fastest", async () => {
  for (const [file, isRange] of [["be-f4.npy", true], ["rank-3.npy", true], ["fortran.npy", false], ["fortran-swapped.npy", false]]) {
    const model = await sources.HTTP("npy", file);
    const { shape, byteLength } = model.tensors.get("");
    const whole = await model.tensor("");
    const row = await model.tensor("", { rows: [1, 2] });
    assert.deepEqual(row.bytes, whole.bytes.subarray(byteLength / shape[0], (2 * byteLength) / shape[0]), file);
    const plan = await model.plan("", { rows: [1, 2] });
    assert.deepEqual([plan.whole, plan.bytes], isRange ? [false, byteLength / shape[0]] : [true, byteLength], file);
    model.close();
  }
});

test("a model of another format becomes a safetensors file with the same values", async () => {
  for (const [folder, file] of [["gguf", "k-blocks.gguf"], ["npy", "fortran-swapped.npy"]]) {
    const model = await openBlob(folder, file);
    const blob = model.asSafetensorsBlob();
    assert.equal(blob.isOriginal, false);
    const copy = await open(new Uint8Array(await blob.arrayBuffer()));
    assert.equal(copy.kind, "safetensors");
    for (const name of model.tensors.keys()) assert.deepEqual((await copy.tensor(name)).data, (await model.tensor(name)).data, name);
  }
});

test("every truncation is refused, or leaves the tensors as they are", async () => {
  for (const [folder, file] of [["gguf", "metadata-types.gguf"], ["npy", "le-u8.npy"]]) {
    const whole = readFileSync(vectorPath(folder, file));
    const expected = await readAll(await open(new Uint8Array(whole)));
    for (let length = 0; length < whole.length; length += 7) {
      const reading = open(new Uint8Array(whole.subarray(0, length))).then(readAll);
      // Only the padding after the data may be missing.
      if (length < whole.length - 31) await assert.rejects(reading, isRefusal, `${file} cut at ${length}`);
      else assert.deepEqual(await reading.catch((error) => isRefusal(error) && expected), expected, `${file} cut at ${length}`);
    }
  }
});

test("the first of several GGUF files opens the model, from everywhere", async (t) => {
  const folder = scratch;
  const names = ["1", "2", "3"].map((number) => `m-0000${number}-of-00003.gguf`);
  const files = new Map(
    names.map((name, number) => {
      const tensor = { name: "abc"[number], shape: [2], bytes: new Uint8Array(Float32Array.of(number, number + 0.5).buffer) };
      return [name, ggufFile({ "split.no": number, "split.count": 3, "split.tensors.count": 3 }, [tensor])];
    }),
  );
  for (const [name, bytes] of files) writeFileSync(join(folder, name), bytes);
  await packAll(names.map((name) => join(folder, name)), folder);
  const site = await startServer((request, response) => answerRange(request, response, readFileSync(join(folder, request.url.replace(/[?].*/, "")))));
  t.after(() => site.stop());
  const fileOf = (name) => new File([files.get(name)], name);
  const siblings = (name) => (files.has(name) ? fileOf(name) : undefined);
  const [first, second, third] = names;
  const namesOf = async (opening) => {
    const model = await opening;
    const found = [...model.tensors.keys()].join("");
    const last = found.at(-1);
    assert.deepEqual([...(await model.tensor(last)).data], ["abc".indexOf(last), "abc".indexOf(last) + 0.5]);
    model.close();
    return found;
  };
  assert.equal(await namesOf(open(join(folder, first))), "abc");
  assert.equal(await namesOf(open(`${site.url}${first}?x=1`)), "abc");
  assert.equal(await namesOf(open(`${site.url}${first}.zstn`)), "abc");
  assert.equal(await namesOf(open(fileOf(first), { siblings })), "abc");
  const source = { name: first, size: () => files.get(first).length, read: async (offset, length) => files.get(first).subarray(offset, offset + length) };
  assert.equal(await namesOf(open(source, { siblings })), "abc");
  // Other files, and files without siblings, are opened by themselves.
  assert.equal(await namesOf(open(join(folder, second))), "b");
  assert.equal(await namesOf(open(fileOf(first))), "a");
  assert.equal(await namesOf(open(join(folder, first), { siblings: () => undefined })), "a");

  await assert.rejects(open(fileOf(first), { siblings: (name) => (name === second ? fileOf(name) : undefined) }), { code: "invalid_input", message: new RegExp(third) });
  const swapped = open(fileOf(first), { siblings: (name) => fileOf(name === second ? third : second) });
  await assert.rejects(swapped, { code: "malformed", rule: "gguf.split", message: /file [23] of 3/ });
  const other = open(fileOf(first), { siblings: (name) => (name === second ? new File([readFileSync(vectorPath("npy", goodForeign("npy")[0].file))], name) : fileOf(name)) });
  await assert.rejects(other, { code: "malformed", rule: "gguf.split" });
});
