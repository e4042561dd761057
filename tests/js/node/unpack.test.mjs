/** Unpacking gives the bytes that were packed, from every format and input, into a Blob or a stream, or a typed error. */

import assert from "node:assert/strict";
import { createWriteStream, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Writable } from "node:stream";
import { before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { open, pack, unpack } from "zstn";
import { writeLanguageModel, xorshift } from "../support/checkpoint.mjs";
import { packAll } from "../support/cli.mjs";
import { ggufFile } from "../support/gguf.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { answerRange, startServer } from "../support/server.mjs";
import { goodContainers, goodForeign, readableByName, sha256, vectorPath } from "../support/vectors.mjs";

const FOLDERS = ["gguf", "npy", "npz", "pytorch", "onnx", "msgpack", "tflite", "hdf5"];
const scratch = scratchFolder();
const bytesOf = async (blob) => new Uint8Array(await blob.arrayBuffer());

const random = xorshift(37);
const VALUES = new Uint8Array(Float32Array.from({ length: 3 << 18 }, () => 1 + random() / 2 ** 35).buffer);
const model = ggufFile({ "general.name": "large" }, [
  { name: "large", shape: [1024, 768], bytes: VALUES },
  { name: "small", shape: [3], bytes: VALUES.subarray(0, 12) },
]);
const packed = join(scratch, "model.gguf.zstn");

before(async () => {
  writeFileSync(join(scratch, "model.gguf"), model);
  await packAll([join(scratch, "model.gguf")], scratch);
  for (const folder of FOLDERS) {
    mkdirSync(join(scratch, folder));
    await packAll(goodForeign(folder).map(({ file }) => vectorPath(folder, file)), join(scratch, folder));
  }
});

for (const folder of FOLDERS) {
  test(`${folder}: files that the command line packed are restored under their names`, async () => {
    for (const { file } of goodForeign(folder)) {
      const path = join(scratch, folder, `${file}.zstn`);
      const original = readFileSync(vectorPath(folder, file));
      const { blob, ...report } = await unpack(path);
      assert.deepEqual(report, { name: file, kind: folder, size: original.length, packedSize: statSync(path).size });
      assert.ok(original.equals(await bytesOf(blob)), file);
    }
  });
}

test("safetensors files are restored from containers and deltas", async () => {
  for (const { container, original } of goodContainers.filter(readableByName)) {
    const { name, kind, blob } = await unpack(vectorPath("zstn", container.file));
    assert.deepEqual([name, kind], [container.file.replace(/\.zstn$/, ".safetensors"), "safetensors"]);
    assert.equal(sha256(await bytesOf(blob)), sha256(readFileSync(vectorPath("zstn", original.file))), container.file);
  }
  const base = join(scratch, "base.safetensors");
  await writeLanguageModel(base);
  const { blob } = await pack(base, { base });
  const restored = await unpack(new File([blob], "tuned.z4dm"), { base });
  assert.equal(restored.name, "tuned.safetensors");
  assert.equal(sha256(await bytesOf(restored.blob)), sha256(readFileSync(base)));
  await assert.rejects(unpack(blob), { code: "base_required" });
});

test("every input and sink gives the same bytes, and progress counts them", async () => {
  const bytes = readFileSync(packed);
  const server = await startServer((request, response) => answerRange(request, response, bytes, { etag: '"1"' }));
  try {
    const heard = [];
    const inputs = [[new Blob([bytes]), undefined], [new File([bytes], "a.zstn"), "a"], [bytes, undefined], [new URL("b/model.gguf.zstn?x", server.url), "model.gguf"]];
    for (const [input, name] of inputs) {
      const report = await unpack(input, { onProgress: (progress) => heard.push(progress) });
      assert.equal(report.name, name);
      assert.ok(model.equals(await bytesOf(report.blob)));
      assert.ok(heard.every(({ stage, totalBytes }) => stage === "unpack" && totalBytes === model.length));
      assert.equal(heard.at(-1).loadedBytes, model.length);
    }
  } finally {
    await server.stop();
  }
  const streamed = join(scratch, "streamed.gguf");
  const report = await unpack(packed, { to: Writable.toWeb(createWriteStream(streamed)) });
  assert.equal(report.blob, undefined);
  assert.ok(readFileSync(streamed).equals(model));
});

test("the name is that of the address, without percent-encoding, or that of the file as it is", async () => {
  const bytes = readFileSync(packed);
  const server = await startServer((request, response) => answerRange(request, response, bytes, { etag: '"1"' }));
  const cases = [["my%20model.gguf.zstn", "my model.gguf"], ["a%2520b.gguf.zstn?x=%20", "a%20b.gguf"], ["100%.gguf.zstn", "100%.gguf"], ["%E0%A4%A.gguf.zstn", "%E0%A4%A.gguf"], ["..%2Fa.gguf.zstn", "..%2Fa.gguf"], ["a%5Cb.gguf.zstn", "a%5Cb.gguf"], ["a%00b.gguf.zstn", "a%00b.gguf"]];
  try {
    for (const [path, name] of cases) {
      assert.equal((await unpack(`${server.url}${path}`)).name, name);
      assert.equal((await unpack(new URL(path, server.url))).name, name);
    }
  } finally {
    await server.stop();
  }
  const local = join(scratch, "my%20model.gguf.zstn");
  writeFileSync(local, bytes);
  assert.equal((await unpack(local)).name, "my%20model.gguf");
  assert.equal((await unpack(new File([bytes], "my%20model.gguf.zstn"))).name, "my%20model.gguf");
  assert.equal((await unpack(pathToFileURL(local))).name, "my%20model.gguf");
  assert.equal((await unpack(pathToFileURL(local).href)).name, "my%20model.gguf");
});

test("a safetensors file that is stored as one frame is left to the command line", async () => {
  const longer = Buffer.concat([readFileSync(vectorPath("zstn", "all_dtypes.safetensors")), Buffer.from("more")]);
  const { blob, indexed } = await pack(longer);
  assert.equal(indexed, false);
  await assert.rejects(unpack(blob), { code: "unsupported", message: /^This file .* one frame\. Only the program `zstn unpack` restores it\.$/ });
  const newer = await bytesOf(blob);
  newer[4] = 200;
  await assert.rejects(unpack(newer), ({ message }) => !message.includes("one frame"));
});

test("unpacking into a stream of Node is refused", async () => {
  const to = new Writable({ write: (_chunk, _encoding, done) => done() });
  await assert.rejects(unpack(packed, { to }), { code: "invalid_input", message: /WritableStream.*Writable\.toWeb/ });
});

test("no file of another format is restored under the name of a safetensors file", async () => {
  const report = await unpack(new File([readFileSync(packed)], "model.safetensors.zstn"));
  assert.deepEqual([report.name, report.kind], [undefined, "gguf"]);
});

test("a changed byte anywhere is an error, or does not matter", async () => {
  const small = join(scratch, "npy", "le-f4.npy.zstn");
  const bytes = new Uint8Array(readFileSync(small));
  const original = readFileSync(vectorPath("npy", "le-f4.npy"));
  let refused = 0;
  for (let at = 0; at < bytes.length; at += 3) {
    const damaged = bytes.slice();
    damaged[at] ^= 0x10;
    const restored = await unpack(damaged).catch((error) => {
      assert.ok(["FormatError", "UnsupportedError", "LimitError", "InvalidInputError"].includes(error.name), `byte ${at}: ${error}`);
      refused += 1;
    });
    if (restored) assert.ok(original.equals(await bytesOf(restored.blob)), `byte ${at}`);
  }
  assert.ok(refused > bytes.length / 6, `${refused} refused`);
});

for (const [what, source] of [["an empty file", new Uint8Array()], ["a GGUF file", model], ["a safetensors file", vectorPath("zstn", "all_dtypes.safetensors")]]) {
  test(`${what} is not packed`, async () => {
    await assert.rejects(unpack(source), { name: "InvalidInputError", message: /not packed/ });
  });
}

test("an aborted call says why, and the stream hears of it", async () => {
  const mine = new Error("changed my mind");
  for (const input of [packed, vectorPath("zstn", "all_dtypes.zstn")]) {
    const stop = new AbortController();
    let heard;
    const to = new WritableStream({ abort: (reason) => void (heard = reason) });
    await assert.rejects(unpack(input, { to, signal: stop.signal, onProgress: () => stop.abort(mine) }), (error) => error === mine);
    assert.equal(heard, mine);
    await assert.rejects(unpack(input, { signal: AbortSignal.abort(mine) }), (error) => error === mine);
  }
  assert.equal((await open(packed)).metadata["general.name"], "large");
});
