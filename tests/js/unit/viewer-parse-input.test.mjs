/** The viewer's parsing of addresses and names: the place that each would be read from. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

async function load(path) {
  const { outputFiles } = await build({ entryPoints: [fileURLToPath(new URL(`../../../web-demo/src/${path}`, import.meta.url))], bundle: true, format: "esm", write: false });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
}

const { hubAt, isBelow, isRepository, spelledOut } = await load("open/parse-input.ts");
const { asFileOfRepository, parseInput } = await load("engine/resolve.ts");

const HF = "https://huggingface.co";
const MIRROR = "https://mirror.example/hub";
const repository = (name, revision, file, endpoint = HF, kind = "models") => ({ kind: "repository", repository: { endpoint, kind, repository: name, revision, file } });

for (const [text, expected] of [
  ["openai-community/gpt2", repository("openai-community/gpt2")],
  [" meta-llama/Llama-3.1-8B ", repository("meta-llama/Llama-3.1-8B")],
  ["gpt2", repository("gpt2")],
  ["bert-base-uncased@v1", repository("bert-base-uncased", "v1")],
  ["owner/name@v1.0", repository("owner/name", "v1.0")],
  ["owner/name@refs/pr/3", repository("owner/name", "refs/pr/3")],
  ["hf://owner/name", repository("owner/name")],
  ["HF://owner/name@v1", repository("owner/name", "v1")],
  ["hf://datasets/owner/name/a.zstn", repository("owner/name", undefined, "a.zstn", HF, "datasets")],
  ["hf://owner/name/unet/model.safetensors", repository("owner/name", undefined, "unet/model.safetensors")],
  ["hf://owner/name@refs/pr/3/model.safetensors", repository("owner/name", "refs/pr/3", "model.safetensors")],
  ["hf://owner/model.gguf", repository("owner/model.gguf")],
  [`${HF}/gpt2`, repository("gpt2")],
  [`${HF}/owner/name`, repository("owner/name")],
  [`${HF}/owner/name/tree/v1`, repository("owner/name", "v1")],
  [`${HF}/owner/name/tree/main/unet`, repository("owner/name", "main", "unet")],
  [`${HF}/owner/name/tree/refs%2Fpr%2F3`, repository("owner/name", "refs/pr/3")],
  [`${HF}/owner/name/blob/main/a/b.safetensors`, repository("owner/name", "main", "a/b.safetensors")],
  [`${HF}/owner/name/resolve/main/model.safetensors?download=true`, repository("owner/name", "main", "model.safetensors")],
  [`${MIRROR}/owner/name`, repository("owner/name", undefined, undefined, MIRROR)],
  [`${MIRROR}/owner/name/blob/v1/b.zstn`, repository("owner/name", "v1", "b.zstn", MIRROR)],
]) {
  test(`${text} is a repository`, () => assert.deepEqual(parseInput(text, MIRROR), expected));
}

for (const text of [
  "model.zstn",
  "models/model.zstn",
  "models/model.gguf",
  "models/weights.bin",
  "models/llama/model.safetensors",
  "models/sharded/model.safetensors.index.json",
  "models/llama@v2/model.safetensors",
  "models/llama@v2.safetensors",
  "a/b/c",
  "a/b/",
  "./gpt2",
  "./owner/name",
  "../owner/name",
  "/owner/name",
  "owner/..",
  "owner/name?x=1",
  "localhost:8080",
  "hf://",
  "hf://owner//x",
  "",
  "https://",
  "https://huggingface.co",
  "https://huggingface.co/docs/hub",
  "https://huggingface.co/api/models/owner",
  "https://huggingface.co/owner/name/discussions/1",
  "https://huggingface.co/%E0/%2F",
  "https://huggingface.co.evil.example/owner/name",
  "https://huggingface.co@evil.example/owner/name",
  "http://huggingface.co/owner/name",
  "https://mirror.example/other/name",
  "https://mirror.example/hub2/owner/name",
]) {
  test(`"${text}" is an address, which no hub is told of`, () => assert.deepEqual(parseInput(text, MIRROR), { kind: "address", address: text }));
}

test("the page takes for names exactly the texts that the worker parses as names", () => {
  const names = ["gpt2", "owner/name", "owner/name@v1", "owner/name@refs/pr/3", "owner/name@refs/convert/parquet", "datasets/name", `${"o".repeat(96)}/n`, "hf://owner/name"];
  const others = ["owner/name.", "owner-/name", "a..b", "owner/a..b", "buckets/name", "o/n@", "o/n@refs/pr/x", "name@refs/pr/3", `${"o".repeat(97)}/n`, "a/b/c", "./gpt2", "_/.", "model.zstn"];
  for (const text of names) assert.deepEqual([isRepository(text), parseInput(text).kind], [true, "repository"], text);
  for (const text of others) assert.deepEqual([isRepository(text), parseInput(text).kind], [false, "address"], text);
});

test("names mean a hub only where they are spelled out for it, and then the same as its page", () => {
  assert.deepEqual(parseInput("owner/name", MIRROR), repository("owner/name"));
  for (const [text, revision] of [["owner/name", undefined], ["owner/name@v1", "v1"], ["owner/name@refs/pr/3", "refs/pr/3"]]) {
    assert.deepEqual(parseInput(spelledOut(text, MIRROR), MIRROR), repository("owner/name", revision, undefined, MIRROR));
  }
  for (const text of ["models/model.zstn", "a/b/c.zstn", "hf://owner/name", "https://x.example/owner/name"]) assert.equal(spelledOut(text, MIRROR), text);
});

test("the address of a hub in one spelling", () => {
  assert.equal(hubAt("https://mirror.example/hub//"), MIRROR);
  assert.equal(hubAt("https://mirror.example"), "https://mirror.example");
  assert.equal(hubAt("https://user:secret@mirror.example/?a=1"), "https://mirror.example");
  for (const text of ["javascript:alert(1)", "hub", "/hub", "data:text/plain,x", ""]) assert.equal(hubAt(text), undefined, text);
  assert.ok(isBelow(MIRROR, `${MIRROR}/owner/name`));
  assert.ok(!isBelow(MIRROR, "https://mirror.example/other"));
  assert.ok(!isBelow(MIRROR, "owner/name"));
});

test("a relative address can be written as a file of a repository, but is none by itself", () => {
  assert.equal(asFileOfRepository("owner/name/model.safetensors"), "hf://owner/name/model.safetensors");
  assert.deepEqual(parseInput(asFileOfRepository("owner/name@v1/a/b.zstn")), repository("owner/name", "v1", "a/b.zstn"));
  for (const text of ["model.zstn", "models/model.zstn", "https://x.example/a/b/c", "../a/b/c"]) assert.equal(asFileOfRepository(text), undefined, text);
});
