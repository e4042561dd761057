import assert from "node:assert/strict";
import { test } from "node:test";
import { safetensorsHead } from "../../../wasm/dist/virtual/head.js";
import { open } from "zstn";

const info = (name, dtype, shape, byteLength) => ({ name, dtype, shape, byteLength });

test("length, header and blanks, spelled as the core's writer does", () => {
  const tensors = [info('b "quoted" \u{1F980}', "F32", [2, 3], 24), info("empty", "I64", [0, 7], 0), info("", "F4", [4], 2), info("scalar", "C64", [], 8)];
  const head = Buffer.from(safetensorsHead({ 'for"mat': "p\nt" }, tensors));
  const json = '{"__metadata__":{"for\\"mat":"p\\nt"},"b \\"quoted\\" \u{1F980}":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"empty":{"dtype":"I64","shape":[0,7],"data_offsets":[24,24]},"":{"dtype":"F4","shape":[4],"data_offsets":[24,26]},"scalar":{"dtype":"C64","shape":[],"data_offsets":[26,34]}}';
  assert.equal(head.length % 8, 0);
  assert.equal(head.readBigUInt64LE(), BigInt(head.length - 8));
  assert.equal(head.subarray(8).toString().trimEnd(), json);
  assert.deepEqual(Buffer.from(safetensorsHead({}, [])), Buffer.from("\x08\0\0\0\0\0\0\0{}      "));
});

test("metadata are sorted as UTF-8 is, numbers among the keys included", async () => {
  const keys = ["2", "10", "b", "a", "ab", "\u{1F980}", "\uFB00", ""];
  const metadata = Object.fromEntries(keys.map((key) => [key, `of ${key}`]));
  const head = safetensorsHead(metadata, []);
  const found = [...Buffer.from(head).toString().matchAll(/"([^"]*)":"of /g)].map(([, key]) => key);
  assert.deepEqual(found, keys.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))));
  assert.deepEqual({ ...(await open(head)).metadata }, metadata, "and our own reader takes it");
});

test("what no file can hold", () => {
  assert.throws(() => safetensorsHead({}, [info("__metadata__", "U8", [1], 1)]), { name: "UnsupportedError", tensor: "__metadata__" });
  const far = [info("a", "U8", [2 ** 53 - 1], 2 ** 53 - 1), info("b", "U8", [8], 8)];
  assert.throws(() => safetensorsHead({}, far), { name: "LimitError" });
});
