/** Files of other formats than safetensors are packed as the Rust library packs them, and restored byte for byte. */

import assert from "node:assert/strict";
import { createWriteStream, readFileSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { Writable } from "node:stream";
import { test } from "node:test";
import { configure, open, pack, unpack } from "zstn";
import { safetensors, xorshift } from "../support/checkpoint.mjs";
import { unpack as unpackFile } from "../support/cli.mjs";
import { ggufFile } from "../support/gguf.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { answerRange, startServer } from "../support/server.mjs";
import { badForeign, goodContainers, goodForeign, sha256, vectorPath } from "../support/vectors.mjs";

const FOLDERS = ["gguf", "npy", "npz", "pytorch", "onnx", "msgpack", "tflite", "hdf5"];
const scratch = scratchFolder();
const digests = JSON.parse(readFileSync(vectorPath(".", "pure-original.json"), "utf8"));
const bytesOf = async (blob) => new Uint8Array(await blob.arrayBuffer());
const text = (content) => new TextEncoder().encode(content);
const plain = vectorPath("zstn", goodContainers.find(({ name }) => name === "all_dtypes").original.file);

/** Checks that the command line restores `original` from the packed file. */
async function assertRestored(blob, original, name = "file") {
  const [packed, restored] = [join(scratch, `${name}.zstn`), join(scratch, name)];
  writeFileSync(packed, await bytesOf(blob));
  await unpackFile(packed, restored);
  assert.ok(readFileSync(restored).equals(original), name);
}

test("safetensors files are packed without the module with all formats", async () => {
  await pack(plain);
  configure({ wasm: { formats: readFileSync(new URL("../../../wasm/dist/core/zstn_formats_bg.wasm", import.meta.url)) } });
});

for (const folder of FOLDERS) {
  test(`${folder}: the bytes are those of Rust, and the command line restores the longest file`, async () => {
    const files = goodForeign(folder).map(({ file }) => file);
    for (const [effort, known] of Object.entries(digests)) {
      for (const file of files) {
        const { blob, size, originalSize, original, indexed } = await pack(vectorPath(folder, file), { effort });
        assert.deepEqual([size, originalSize, indexed, original], [blob.size, statSync(vectorPath(folder, file)).size, true, { kind: folder }], file);
        assert.equal(sha256(await bytesOf(blob)), known[`${folder}/${file}`], `${file}, effort ${effort}`);
      }
    }
    const [longest] = files.map((file) => vectorPath(folder, file)).sort((a, b) => statSync(b).size - statSync(a).size);
    await assertRestored((await pack(longest)).blob, readFileSync(longest), basename(longest));
  });
}

/** The values of a tensor that is longer than the bytes that are read first. */
const random = xorshift(36);
const VALUES = new Uint8Array(Float32Array.from({ length: 3 << 16 }, () => 1 + random() / 2 ** 35).buffer);
const model = ggufFile({ "general.name": "large", text: "long ".repeat(20_000) }, [
  { name: "large", shape: [256, 768], bytes: VALUES },
  { name: "small", shape: [3], bytes: VALUES.subarray(0, 12) },
]);

test("the long tensors are listed, and progress counts every byte once", async () => {
  const heard = [];
  const { blob, tensors } = await pack(model, { onProgress: (progress) => heard.push(progress) });
  assert.deepEqual(tensors.filter(({ name }) => !name.startsWith("@bytes/")).map(({ name, byteLength }) => [name, byteLength]), [["large", VALUES.length]]);
  assert.equal(tensors.reduce((sum, { byteLength }) => sum + byteLength, 0), model.length);
  assert.ok(heard.every(({ stage, totalBytes }) => stage === "pack" && totalBytes === model.length));
  assert.equal(heard.at(-1).loadedBytes, model.length);
  const opened = await open(blob);
  assert.deepEqual((await opened.tensor("large")).bytes, VALUES);
  assert.equal(opened.metadata["general.name"], "large");
  await assertRestored(blob, model, "model.gguf");
});

test("every input and sink gives the same bytes, also with a known SHA-256 and extension frames", async () => {
  const { blob } = await pack(model);
  const expected = sha256(await bytesOf(blob));
  const server = await startServer((request, response) => answerRange(request, response, model, { etag: '"1"' }));
  try {
    const inputs = [new Blob([model]), new File([model], "model.gguf"), { size: () => model.length, read: async (offset, length) => model.subarray(offset, offset + length) }, new URL("model.gguf?download=true", server.url)];
    for (const input of inputs) assert.equal(sha256(await bytesOf((await pack(input)).blob)), expected);
    assert.ok(server.requests.length <= 8, `${server.requests.length} requests`);
  } finally {
    await server.stop();
  }
  const streamed = join(scratch, "streamed.zstn");
  const { size, original } = await pack(model, { to: Writable.toWeb(createWriteStream(streamed)) });
  assert.deepEqual([size, original, sha256(readFileSync(streamed))], [blob.size, { kind: "gguf" }, expected]);
  for (const options of [{ extended: true }, { sha256: sha256(model) }]) await assertRestored((await pack(model, options)).blob, model, "options.gguf");
});

test("a file that is not recognised, or is refused, is packed as bytes with the reason", async () => {
  const onnx = readFileSync(vectorPath("onnx", goodForeign("onnx")[0].file));
  const files = [new Uint8Array(), text("GGUF"), text("PK\u0003\u0004 a zip archive, say, of some length"), text('{"a": [1, 2, 3]}'), new Uint8Array(100_000), onnx, model.subarray(0, 100_000)];
  for (const [number, file] of files.entries()) {
    const { blob, original, indexed } = await pack(file);
    assert.equal(original.kind, "bytes", String(number));
    assert.equal(indexed, false, String(number));
    assert.match(original.refusal, /\w{2,}.* .*\w{2,}/s, "a sentence");
    await assertRestored(blob, file, `bytes-${number}`);
  }
  // The name determines this format.
  assert.equal((await pack(new File([onnx], "model.onnx"))).original.kind, "onnx");
  const named = await pack(new Blob([onnx]), { name: "model.onnx" });
  assert.equal(named.original.kind, "onnx");
  await assertRestored(named.blob, onnx, "named.onnx");
  assert.equal((await pack(new File([onnx], "model.onnx"), { name: "model" })).original.kind, "bytes");
});

for (const folder of FOLDERS) {
  test(`${folder}: damaged files are packed, and restored as they are`, async () => {
    let refused = 0;
    for (const { file } of badForeign(folder)) {
      const bytes = readFileSync(vectorPath(`${folder}-bad`, file));
      const { blob, original } = await pack(new File([bytes], file));
      assert.equal(original.kind === "bytes", original.refusal !== undefined, file);
      refused += original.kind === "bytes";
      assert.ok(bytes.equals(await bytesOf((await unpack(blob)).blob)), file);
    }
    assert.ok(refused > 0);
  });
}

for (const [what, source, expected, options] of [
  ["another file that is called .safetensors", new File([model], "model.safetensors"), { name: "InvalidInputError", message: "The file model.safetensors is a file of the format gguf, not safetensors; pack it under the name of its format, or `convert` it." }],
  ["bytes that are called .safetensors by an option", model, { name: "InvalidInputError", message: /^The file tuned\.safetensors is/ }, { name: "tuned.safetensors" }],
  ["text that is called .safetensors", new File(["any text of any length"], "MODEL.SAFETENSORS"), { name: "FormatError" }],
  ["a web page", text("<!DOCTYPE html><html><body>Sign in</body></html>"), { name: "FormatError", message: /web page/ }],
  ["an answer of an object store", text("<?xml version='1.0'?><Error/>"), { name: "FormatError", message: /XML/ }],
  ["a pointer of Git LFS", text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), { name: "FormatError", message: /Git LFS/ }],
]) {
  test(`${what} cannot be packed`, async () => {
    await assert.rejects(pack(source, options), expected);
  });
}

test("the index of a model in several files is refused, with and without a base", async () => {
  const index = '{\n  "metadata": {"total_size": 4},\n  "weight_map": {"a": "model-00001-of-00001.safetensors"}\n}';
  const path = join(scratch, "model.safetensors.index.json");
  writeFileSync(path, index);
  const expected = { name: "InvalidInputError", message: /^(.*model\.safetensors\.index\.json|The file) is the index of a model in several files .* each shard .*`zstn pack`\.$/ };
  for (const source of [path, text(index), new File([index], "model.safetensors.index.json")]) {
    await assert.rejects(pack(source), expected);
    await assert.rejects(pack(source, { base: plain }), expected);
  }
  const keras = '{"weight_map": {"/layers/a": ["model_00000.weights.h5"]}}';
  await assert.rejects(pack(text(keras)), expected);
  assert.equal((await pack(text('{"weight_map": 1, "other": "text"}'))).original.kind, "bytes");
});

test("only safetensors files are packed against a base", async () => {
  await assert.rejects(pack(new File([model], "model.gguf"), { base: plain }), { name: "InvalidInputError", message: /^model\.gguf is not a safetensors file, and only these are stored as a delta; leave out the base/ });
  await assert.rejects(pack(model, { base: plain, name: "tuned.gguf" }), { name: "InvalidInputError", message: /^tuned\.gguf is/ });
  const tuned = safetensors({ a: { dtype: "U8", shape: [1], bytes: Uint8Array.of(1) } });
  assert.equal((await pack(tuned, { base: tuned })).original, undefined);
});

test("an aborted call says why, at every read", async () => {
  const mine = new Error("changed my mind");
  let reads = 0;
  const source = (stopAt, stop) => ({
    size: () => model.length,
    async read(offset, length) {
      if (reads++ === stopAt) stop?.abort(mine);
      return model.subarray(offset, offset + length);
    },
  });
  await pack(source());
  const all = reads;
  assert.ok(all >= 4, `${all} reads`);
  for (let stopAt = 0; stopAt < all; stopAt++) {
    reads = 0;
    const stop = new AbortController();
    await assert.rejects(pack(source(stopAt, stop), { signal: stop.signal }), (error) => error === mine, `read ${stopAt}`);
  }
});

test("a failed read is an error, and does not turn the file into bytes", async () => {
  const mine = new TypeError("unplugged");
  for (let failAt = 0; failAt < 4; failAt++) {
    let reads = 0;
    const read = async (offset, length) => (reads++ === failAt ? Promise.reject(mine) : model.subarray(offset, offset + length));
    await assert.rejects(pack({ size: () => model.length, read }), (error) => error === mine, `read ${failAt}`);
  }
});
