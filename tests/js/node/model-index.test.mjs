/** The index of a model: opening with it makes no request, a changed file is refused, and so is a damaged or hostile index. */

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { gunzipSync, gzipSync } from "node:zlib";
import { open, pack } from "zstn";
import { bf16Tensor, safetensors, xorshift } from "../support/checkpoint.mjs";
import { ggufFile } from "../support/gguf.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { answerRange, startServer } from "../support/server.mjs";

const scratch = scratchFolder();
const random = xorshift(7);
const WEIGHT = bf16Tensor(300 * 256, random);
const weight = { dtype: "BF16", shape: [300, 256], bytes: WEIGHT };
const tiny = (i) => ({ dtype: "F32", shape: [2], bytes: new Uint8Array(Float32Array.of(i, -i).buffer) });
/** A header of 80 kB, in front of a tensor. */
const many = safetensors({ ...Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`model.layers.${i}.scale`, tiny(i)])), w: weight });
const shards = { "one.safetensors": safetensors({ a: weight }), "two.safetensors": safetensors({ b: weight, c: tiny(3) }) };
const files = {
  "plain.safetensors": safetensors({ w: weight, x: tiny(1) }),
  "many.safetensors": many,
  "model.safetensors.index.json": Buffer.from(JSON.stringify({ weight_map: { a: "one.safetensors", b: "two.safetensors", c: "two.safetensors" } })),
  "w.gguf": ggufFile({ "general.architecture": "llama" }, [{ name: "w", shape: [300, 64], bytes: WEIGHT.subarray(0, 76_800) }]),
};
const etags = new Map();
/** Whether the server sends ETags. */
let hasVersions = true;
let server;

before(async () => {
  const packed = async (bytes) => Buffer.from(await (await pack(bytes)).blob.arrayBuffer());
  Object.assign(files, shards);
  files["one.safetensors"] = await packed(shards["one.safetensors"]);
  files["plain.zstn"] = await packed(files["plain.safetensors"]);
  files["many.zstn"] = await packed(many);
  server = await startServer((request, response) => {
    const name = new URL(request.url, "http://localhost").pathname.slice(1);
    if (!files[name]) return response.writeHead(404).end();
    const etag = etags.get(name) ?? `"${name} 1"`;
    const isCurrent = request.headers["if-range"] === undefined || request.headers["if-range"] === etag;
    if (!isCurrent) delete request.headers.range;
    return answerRange(request, response, files[name], hasVersions ? { etag } : {});
  });
});
after(() => server?.stop());

/** Opens a file by its URL, makes its index, and returns both. */
async function indexed(name, options) {
  const model = await open(`${server.url}${name}`, options);
  return { model, index: await model.index() };
}

const again = (name, index, options) => open(`${server.url}${name}`, { ...options, index });
const requestsOf = async (work) => {
  const before = server.requests.length;
  const result = await work();
  return [server.requests.length - before, result];
};
const described = ({ kind, size, originalSize, metadata, tensors, fileCount }) => ({ kind, size, originalSize, metadata, tensors: [...tensors.values()], fileCount });

for (const [name, tensor] of [["plain.safetensors", "w"], ["many.safetensors", "w"], ["plain.zstn", "w"], ["many.zstn", "w"], ["model.safetensors.index.json", "b"], ["w.gguf", "w"]]) {
  test(`${name}: a second open makes no request, and describes the same model`, async (t) => {
    const { model, index } = await indexed(name);
    t.diagnostic(`${index.length} bytes`);
    const [requests, second] = await requestsOf(() => again(name, structuredClone(index)));
    assert.equal(requests, 0);
    assert.deepEqual([second.stats.requests, second.stats.bytesFetched], [0, 0]);
    assert.deepEqual(described(second), described(model));
    const [reads, found] = await requestsOf(() => second.tensor(tensor));
    assert.deepEqual([reads, found.data], [1, (await model.tensor(tensor)).data]);
    const rows = { rows: [3, 5] };
    assert.deepEqual((await second.tensor(tensor, rows)).bytes, (await model.tensor(tensor, rows)).bytes);
    assert.deepEqual(await second.index(), index, "the index of a model that was opened with one is the same");
  });

  test(`${name}: a changed file is refused by its first read`, async () => {
    const { index } = await indexed(name);
    const owner = { b: "two.safetensors" }[tensor] ?? name;
    etags.set(owner, '"2"');
    try {
      const [requests, model] = await requestsOf(() => again(name, index));
      assert.equal(requests, 0);
      // The checksums of a packed file would accept the same bytes of another version, but not other bytes.
      const bytes = files[owner];
      files[owner] = Buffer.from(bytes);
      files[owner].fill(0x55, Math.floor(bytes.length / 3), Math.floor(bytes.length / 2));
      await assert.rejects(model.tensor(tensor), { code: "changed" });
      files[owner] = bytes;
    } finally {
      etags.clear();
    }
  });
}

test("verify: \"full\" and the core accept the same index", async () => {
  const { index } = await indexed("many.zstn");
  const [requests, model] = await requestsOf(() => again("many.zstn", index, { verify: "full" }));
  assert.equal(requests, 0);
  assert.deepEqual(Buffer.from((await model.tensor("w")).bytes), Buffer.from(WEIGHT));
});

test("the index of a delta contains the delta alone", async () => {
  const base = safetensors({ w: weight, x: tiny(1) });
  files["tuned.z4dm"] = Buffer.from(await (await pack(safetensors({ w: weight, x: tiny(2) }), { base })).blob.arrayBuffer());
  const { model, index } = await indexed("tuned.z4dm", { base });
  const [requests, second] = await requestsOf(() => again("tuned.z4dm", index, { base }));
  assert.equal(requests, 0);
  assert.deepEqual(described(second), described(model));
  assert.deepEqual([...(await second.tensor("x")).data], [2, -2]);
  await assert.rejects(again("tuned.z4dm", index), { code: "base_required" });
});

test("a server without ranges is read again, as a whole", async () => {
  const whole = await startServer((_request, response) => response.writeHead(200, { "content-length": files["plain.zstn"].length, etag: '"1"' }).end(files["plain.zstn"]));
  const first = await open(whole.url);
  const second = await open(whole.url, { index: await first.index() });
  assert.deepEqual(Buffer.from((await second.tensor("w")).bytes), Buffer.from(WEIGHT));
  assert.equal(whole.requests.length, 2);
  await whole.stop();
});

test("it is compact, and contains neither addresses nor secrets nor values of plain files", async () => {
  for (const name of ["many.safetensors", "many.zstn", "plain.safetensors"]) {
    const { index } = await indexed(`${name}?X-Signature=secret`, { token: "secret", headers: { "x-other": "secret" } });
    const text = gunzipSync(index.subarray(8)).toString("latin1");
    assert.doesNotMatch(text, /secret|http|127\.0/);
    if (name === "plain.safetensors") assert.ok(index.length < 500, `${index.length} bytes`);
    if (name === "many.safetensors") assert.ok(index.length < 80_000 / 5, `${index.length} bytes`);
  }
});

test("without ETag and Last-Modified, and for local files, the bytes are read and compared", async () => {
  try {
    const path = join(scratch, "local.safetensors");
    writeFileSync(path, files["plain.safetensors"]);
    const local = await (await open(path)).index();
    const { index: remote } = await indexed("plain.safetensors");
    hasVersions = false;
    const { index: unnamed } = await indexed("plain.safetensors");
    for (const index of [local, remote, unnamed]) {
      for (const source of [path, new Blob([files["plain.safetensors"]]), new Uint8Array(files["plain.safetensors"])]) {
        assert.deepEqual(Buffer.from((await (await open(source, { index })).tensor("w")).bytes), Buffer.from(WEIGHT));
      }
    }
    for (const index of [local, unnamed]) {
      const [requests] = await requestsOf(() => again("plain.safetensors", index));
      assert.equal(requests, 1, "the index has no version for a server");
    }
    const changed = Buffer.from(files["plain.safetensors"]);
    changed[20] ^= 1;
    writeFileSync(path, changed);
    await assert.rejects(open(path, { index: local }), { code: "changed", message: /without the index/ });
    await assert.rejects(open(changed.subarray(0, -1), { index: local }), { code: "changed" });
  } finally {
    hasVersions = true;
  }
});

test("a damaged index is refused, and so is one of another version", async () => {
  for (const name of ["plain.safetensors", "plain.zstn"]) {
    const { index } = await indexed(name);
    for (let at = 0; at < index.length; at += Math.max(1, Math.floor(index.length / 50))) {
      for (const wrong of [index.with(at, index[at] ^ 0x41), index.subarray(0, at)]) {
        // The header of a gzip stream has fields without meaning for its contents.
        const result = await again(name, wrong).catch((error) => error);
        if (result instanceof Error) assert.match(result.code, /^(malformed|unsupported)$/, result.message);
        else assert.ok(at >= 8 && at < 18, `byte ${at}`);
      }
    }
    await assert.rejects(again(name, index.with(7, 2)), { code: "unsupported", message: /another version/ });
  }
  for (const wrong of [5, "index", [1], new ArrayBuffer(8), null]) await assert.rejects(again("plain.safetensors", wrong), { code: "invalid_input" });
});

test("a hostile index costs no memory, and its bytes are parsed like those of a file", async () => {
  const { index } = await indexed("many.safetensors");
  const contents = gunzipSync(index.subarray(8));
  const textEnd = 4 + contents.readUInt32LE(0);
  const json = JSON.parse(contents.subarray(4, textEnd));
  const rewritten = (change, bytes = contents.subarray(textEnd)) => {
    const copy = structuredClone(json);
    const text = Buffer.from(JSON.stringify(change(copy) ?? copy));
    const length = Buffer.alloc(4);
    length.writeUInt32LE(text.length);
    return Buffer.concat([index.subarray(0, 8), gzipSync(Buffer.concat([length, text, bytes]))]);
  };
  assert.equal((await again("many.safetensors", rewritten(() => {}))).tensors.size, 1001);
  const read = (change) => rewritten((copy) => void change(copy.files[0].reads.at(-1), copy.files[0]));
  const wrong = [
    ...[-1, 0.5, 2 ** 53, "1", null].flatMap((value) => [0, 1, 2, 3].map((field) => read((entry) => (entry[field] = value)))),
    read((entry) => (entry[1] += 1 << 30)),
    read((_, file) => (file.sizeBytes = 10)),
    read((_, file) => (file.name = {})),
    read((_, file) => (file.validators.etag = 5)),
    read((_, file) => (file.reads = 5)),
    rewritten(() => 5),
    rewritten(() => ({ files: {} })),
    rewritten(() => ({ files: [null] })),
    rewritten(() => {}, contents.subarray(textEnd, -1)),
    rewritten(() => {}, Buffer.concat([contents.subarray(textEnd), Buffer.of(1)])),
  ];
  for (const [number, bytes] of wrong.entries()) await assert.rejects(again("many.safetensors", bytes), { code: "malformed" }, String(number));
  const header = Buffer.from(contents.subarray(textEnd));
  header[header.indexOf('"data_offsets":[0,8]') + 16] += 1;
  await assert.rejects(again("many.safetensors", rewritten(() => {}, header)), { code: "malformed", rule: "safetensors.offsets" });
  const zeros = Buffer.concat([index.subarray(0, 8), gzipSync(Buffer.alloc(8 << 20))]);
  await assert.rejects(again("many.safetensors", zeros), { code: "limit" });
});

test("models without an index are named", async () => {
  const { blob } = await pack(files["w.gguf"]);
  const model = await open(blob);
  assert.equal(model.tensors.size, 1);
  await assert.rejects(model.index(), { code: "unsupported", message: /packed from other formats/ });
  model.close();
  await assert.rejects(model.index(), { code: "closed" });
});
