/** The meaning of the name or the page URL of a repository, the same as in Rust if Rust supports it. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { HUGGING_FACE, parseHubAddress } from "zstn/hub";

const table = JSON.parse(readFileSync(new URL("../../hub/addresses.json", import.meta.url), "utf8"));
const meant = ({ kind = "models", repository, revision, file, folder }) => ({ endpoint: HUGGING_FACE, kind, repository, revision, file: file ?? folder });

test("addresses mean what they mean in Rust, and none is refused on one side only", () => {
  assert.ok(table.files.length > 10 && table.withoutFile.length > 5 && table.refused.length > 10);
  for (const row of [...table.files, ...table.withoutFile]) {
    assert.deepEqual(parseHubAddress(row.address), meant(row), row.address);
    assert.deepEqual(parseHubAddress(` ${row.address.replace(/^hf:\/\//i, "")} `), meant(row), `${row.address} without hf://`);
  }
  for (const address of table.refused) assert.throws(() => parseHubAddress(address), { code: "invalid_input", message: /hf:\/\/owner\/name\/file/ }, address);
});

const at = (repository, rest = {}) => ({ endpoint: HUGGING_FACE, kind: "models", repository, revision: undefined, file: undefined, ...rest });

for (const [text, expected] of [
  ["gpt2", at("gpt2")],
  ["https://huggingface.co/gpt2", at("gpt2")],
  ["https://huggingface.co/gpt2/", at("gpt2")],
  ["https://huggingface.co/gpt2/tree/main", at("gpt2", { revision: "main" })],
  ["https://huggingface.co/gpt2/blob/main/model.safetensors", at("gpt2", { revision: "main", file: "model.safetensors" })],
  ["https://hf.co/o/n", at("o/n")],
  ["https://www.huggingface.co/o/n?library=zstn#files", at("o/n")],
  ["https://huggingface.co/o/n/tree/refs%2Fpr%2F3", at("o/n", { revision: "refs/pr/3" })],
  ["https://huggingface.co/o/n/tree/refs/pr/3/unet", at("o/n", { revision: "refs/pr/3", file: "unet" })],
  ["https://huggingface.co/o/n/tree/v1/text_encoder/", at("o/n", { revision: "v1", file: "text_encoder" })],
  ["https://huggingface.co/o/n/resolve/main/a%20b/c.zstn?download=true", at("o/n", { revision: "main", file: "a b/c.zstn" })],
  ["https://huggingface.co/o/n/raw/v1/model.safetensors.index.json", at("o/n", { revision: "v1", file: "model.safetensors.index.json" })],
  ["https://huggingface.co/o/n/commit/0123456789abcdef0123456789abcdef01234567", at("o/n", { revision: "0123456789abcdef0123456789abcdef01234567" })],
  ["https://huggingface.co/datasets/o/n/blob/main/x.safetensors", at("o/n", { kind: "datasets", revision: "main", file: "x.safetensors" })],
  ["https://mirror.example/o/n", at("o/n", { endpoint: "https://mirror.example" })],
]) {
  test(`${text} is a repository`, () => assert.deepEqual(parseHubAddress(text), expected));
}

test("a hub with a path in its address", () => {
  const endpoint = "https://mirror.example/hub";
  assert.deepEqual(parseHubAddress(`${endpoint}/o/n/blob/v1/b.zstn`, endpoint), at("o/n", { endpoint, revision: "v1", file: "b.zstn" }));
  assert.deepEqual(parseHubAddress("o/n", endpoint), at("o/n", { endpoint }));
  for (const text of ["https://mirror.example/other/n", "https://mirror.example/hub2/o/n", "https://huggingface.co/o/n"]) assert.throws(() => parseHubAddress(text, endpoint), { code: "invalid_input", message: /not below/ });
});

for (const text of [
  "", "https://", "https://huggingface.co", "https://huggingface.co/docs/hub", "https://huggingface.co/api/models/o/n", "https://huggingface.co/collections/o/n",
  "https://huggingface.co/o/n/blob/main", "https://huggingface.co/o/n/discussions/3", "https://huggingface.co/o/n/settings", "https://huggingface.co/%E0/n", "https://huggingface.co/o/n/tree/..%2Fx", "https://huggingface.co/o/n/commit/a%2F..", "https://huggingface.co/o/n/tree/a%2F%2Fb", "./o/n", "../o", "/o/n", "o/..", "o/n?x=1",
]) {
  test(`"${text}" is no repository`, () => assert.throws(() => parseHubAddress(text), { code: "invalid_input" }));
}
