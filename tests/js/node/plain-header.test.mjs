/**
 * TypeScript reads plain safetensors files, and WebAssembly all others. Here both read the same files: valid ones,
 * forged ones and thousands of mutations.
 */

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { parseShardIndex, isShardIndex } from "../../../wasm/dist/safetensors/shard-index.js";
import { coreIndexOutcome, coreOutcome, openOutcome } from "../support/core-reader.mjs";
import { isAll } from "../support/tier.mjs";

/** Returns a file with this header and `dataBytes` bytes of data. */
function fileOf(header, dataBytes = 0) {
  const json = typeof header === "string" ? Buffer.from(header) : header;
  const file = Buffer.alloc(8 + json.length + dataBytes);
  file.writeBigUInt64LE(BigInt(json.length));
  json.copy(file, 8);
  return file;
}

/** Checks that both outcomes are equal, and returns the outcome. Only the wording about JSON may differ. */
async function agree(file, label) {
  const [ours, core] = [await openOutcome(file), await coreOutcome(file)];
  for (const { refused } of [ours, core]) {
    if (refused?.rule === "safetensors.json") refused.message = refused.message.replace(/not valid safetensors: .* at line \d+ column \d+\.$/, "not valid safetensors: …");
  }
  assert.deepEqual(ours, core, label());
  return ours.refused ? (ours.refused.rule ?? ours.refused.code) : "accepted";
}

/** Counts an outcome. */
function tally(counts, outcome) {
  counts[outcome] = (counts[outcome] ?? 0) + 1;
}

const ENTRY = '{"dtype":"F32","shape":[2],"data_offsets":[0,8]}';
const nested = (depth) => `${"[".repeat(depth)}${"]".repeat(depth)}`;
const objects = (depth) => `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`;
/** Returns a header whose entry has an unknown field, which both readers have to skip. */
const withField = (value) => [`{"w":{"dtype":"F32","x":${value},"shape":[2],"data_offsets":[0,8]}}`, 8];
const withName = (name) => [`{${name}:${ENTRY}}`, 8];
const withShape = (shape, bytes = 8, dtype = '"F32"') => [`{"w":{"dtype":${dtype},"shape":${shape},"data_offsets":[0,${bytes}]}}`, Number(bytes) < 1e6 ? Number(bytes) : 8];

/** The headers, each with the number of data bytes after it. */
const CASES = [
  ["{}"], ["{} "], [" \n\t\r{}\n"], ["{}x"], ["{},"], ["[]"], ["null"], ['"w"'], [""], ["{"], ['{"w"'], ['{"w":'], ["{,}"], ["{}", 1],
  [`{"w":${ENTRY}}`, 8], [`{"w":${ENTRY}}`, 7], [`{"w":${ENTRY}}`, 9], [`{"w":${ENTRY},}`, 8], [`{"w":${ENTRY}`, 8], [`{"w" : ${ENTRY} }`, 8],
  [`{"w":${ENTRY},"w":${ENTRY}}`, 8], [`{"w":{"dtype":"U8","shape":[9],"data_offsets":[0,9]},"v":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"w":${ENTRY}}`, 8],
  ['{"w":["F32",[2],[0,8]]}', 8], ['{"w":["F32",[2],[0,8],1]}', 8], ['{"w":["F32",[2]]}', 8], ['{"w":[]}', 8], ['{"w":null}', 8], ['{"w":1}'],
  ['{"w":{"dtype":"F32","shape":[2]}}', 8], ['{"w":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}', 8], ['{"w":{"shape":[2],"data_offsets":[0,8]}}', 8],
  ['{"w":{"data_offsets":[0,8],"shape":[2],"dtype":"F32"}}', 8],
  ...['"F33"', '"f32"', '"toString"', '{"F32":null}', '{"F32": null }', '{ "F32":null}', '{"F32":1}', '{"F32":null,"F64":null}', "{}", "null", "7", '["F32"]'].map((dtype) => withShape("[2]", 8, dtype)),
  ...["[]", "[0]", "[1,2]", "[2.0]", "[2e0]", "[-2]", "[-0]", "[02]", "[+2]", "[2,]", "[,2]", '["2"]', "2", "null", "[[2]]", "{}", "[ 2 ]", "[18446744073709551616]"].map((shape) => withShape(shape)),
  withShape("[0,18446744073709551615]", 0), withShape("[18446744073709551615,2,0]", 0), withShape("[4294967296,4294967296]", 0), withShape("[4611686018427387904]", 0),
  withShape("[0,9007199254740991]", 0), withShape("[0,9007199254740992]", 0), withShape("[4503599627370496]", "18014398509481984"),
  withShape(`[${"1,".repeat(254)}2]`), withShape(`[${"1,".repeat(255)}2]`), withShape(`[${"1,".repeat(300)}2]`), withShape("[3]", 2, '"F4"'), withShape("[4]", 2, '"F4"'), withShape("[2]", 2, '"F6_E2M3"'),
  withShape("[9007199254740993]", "9007199254740993", '"U8"'), withShape("[3,3002399751580331]", "9007199254740993", '"U8"'), withShape("[00]", 0), withShape("[0]", 0), withShape("[000000000000000000000000002]"), withShape("[9007199254740993,2]", "9007199254740993", '"F4"'),
  ...["[0]", "[0,8,8]", "[8,0]", "[0,-8]", "[0,8.0]", "[1,9]", "8", "[0, 8 ]", "[9007199254740992,9007199254741000]", "[9007199254740993,9007199254741001]", "[0,00000000000000008]", "[0,18446744073709551616]"].map((offsets) => [`{"w":{"dtype":"F32","shape":[2],"data_offsets":${offsets}}}`, 8]),
  [`{"a":${ENTRY},"b":{"dtype":"U8","shape":[1],"data_offsets":[8,9]}}`, 9], [`{"b":{"dtype":"U8","shape":[1],"data_offsets":[8,9]},"a":${ENTRY}}`, 9],
  [`{"a":${ENTRY},"b":{"dtype":"U8","shape":[1],"data_offsets":[7,8]}}`, 8], [`{"a":${ENTRY},"b":{"dtype":"U8","shape":[1],"data_offsets":[9,10]}}`, 10],
  [`{"z":{"dtype":"U8","shape":[0],"data_offsets":[8,8]},"a":${ENTRY},"b":{"dtype":"I8","shape":[0,3],"data_offsets":[0,0]},"c":{"dtype":"U8","shape":[0],"data_offsets":[8,8]}}`, 8],
  ...["null", "{}", "[]", '"a"', "1", '{"format":"pt"}', '{"a":1}', '{"a":null}', '{"a":"b","a":"c"}', '{"b":"1","a":"2","\u{1f980}":"3","\ue000":"4"}', '{"10":"x","9":"y"}', '{"a":"\\u0000\\n"}'].map((metadata) => [`{"__metadata__":${metadata}}`]),
  ['{"__metadata__":{"a":"b"},"__metadata__":{"a":"c"}}'], ['{"__metadata__":null,"__metadata__":null}'],
  ...['"\\u0041"', '"\\ud83e\\udd80"', '"\\ud83e"', '"\\udd80"', '"\\ud83ex"', '"\\ud83e\\n"', '"\\ud83e\\ud83e\\udd80"', '"\\x41"', '"\\u00g1"', '"\\u12"', '"\\"', '"\\\\"', '"\\/\\b\\f\\t"', '"a\nb"', '"\u007f\u2028\u{1f980}"', '""', '"__proto__"', '"constructor"', "w", "'w'", "1"].map(withName),
  // The first bytes of U+FFFD, which decoders write in place of invalid characters, and the character itself.
  ...["\xef", "\xef\xbf", "\xef\xbf\xef\xbf\xbd", "\xef\xbf\xbd\xff", "\xef\xbf\xbd", "\xf0\x9f\xa6", "\xff"].flatMap((bytes) => [[Buffer.from(`{"${bytes}":${ENTRY}}`, "latin1"), 8], [Buffer.from(bytes, "latin1")]]),
  ...["null", "true", "false", "nul", "True", "0", "-0", "01", "1.", ".5", "1.5", "-1.5e-7", "1e", "1e+", "1E+2", "--1", "1-2", "Infinity", "NaN", "1e308", "1e309", "-1e309", "1e-400", "0e999999999999", "1e999999999999", "1e-999999999999", "1e999999999999999999999", "-1e1000000000000000000000", "0.1E+99999999999999999999999", "0e1000000000000000000000", "1e-1000000000000000000000", `1e${"9".repeat(400)}`, `0e${"9".repeat(400)}`, `1e-${"9".repeat(400)}`].map(withField),
  ...["1.7976931348623157e308", "1.7976931348623158e308", "1.7976931348623159e308", "17976931348623157e292", "0.00000000000000000001e328", "0.00000000000000000001e329", `1${"0".repeat(308)}`, `1${"0".repeat(309)}`, `0.${"0".repeat(400)}1e400`, `0.${"0".repeat(400)}1e800`, `${"9".repeat(30)}.${"9".repeat(30)}e280`, "18446744073709551615.5", "18446744073709551616e0"].map(withField),
  ...[124, 125, 126, 127, 128, 5000].flatMap((depth) => [withField(nested(depth)), withField(objects(depth))]),
  ...["[1,2,[3,{}],{}]", "[1 2]", "[1,]", '{"a":1,}', '{"a" 1}', "{1:2}", '{"a":1 "b":2}', "[}", "{]", '{"a":1,"a":2}', '["\\ud800"]', '{"\\ud800":1}', '["\u0001"]'].map(withField),
];

test("headers written to be difficult", async (t) => {
  const counts = {};
  for (const [header, dataBytes = 0] of CASES) tally(counts, await agree(fileOf(header, dataBytes), () => String(header).slice(0, 300)));
  t.diagnostic(JSON.stringify(counts));
  assert.ok(counts.accepted > 60 && counts["safetensors.json"] > 90, "both verdicts occur");
  for (const rule of ["offsets", "overflow", "sub_byte", "size", "coverage", "truncated"]) assert.ok(counts[`safetensors.${rule}`] > 0, rule);
  assert.ok(counts.limit > 0 && counts["tensor.dimensions"] > 0);
});

/** A header with every element that headers can have. */
const USUAL = `{"__metadata__":{"format":"pt","é":"\\u00e9"},"a.weight":{"dtype":"BF16","shape":[3,4],"data_offsets":[0,24]},"b":{"dtype":"I64","shape":[],"data_offsets":[24,32]},"e":{"dtype":"F4","shape":[2,0],"data_offsets":[32,32],"note":[1.5e3,null,{"k":false}]}}  `;

test("a file cut anywhere, and every bit of its header flipped", async (t) => {
  const file = fileOf(USUAL, 32);
  const counts = {};
  for (let end = 0; end < file.length; end++) tally(counts, await agree(file.subarray(0, end), () => `cut to ${end} bytes`));
  const headBytes = file.length - 32;
  for (let bit = 0; bit < 8 * headBytes; bit++) {
    const flipped = Buffer.from(file);
    flipped[bit >> 3] ^= 1 << (bit & 7);
    tally(counts, await agree(flipped, () => `byte ${bit >> 3}, bit ${bit & 7}`));
  }
  t.diagnostic(JSON.stringify(counts));
  for (const outcome of ["accepted", "safetensors.json", "safetensors.utf8", "safetensors.header_length", "safetensors.header_cap", "file.recognised"]) assert.ok(counts[outcome] > 0, outcome);
});

/** Returns a generator of numbers below its argument, the same in every run. */
function numbers(seed) {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

const TOKENS = [
  "{", "}", "[", "]", ",", ":", '"', "\\", "null", "true", "0", "-0", "1e400", "1.5", "9007199254740993", "18446744073709551615", "18446744073709551616", " ", "\n", "\u0000", "\u007f", "\u0001",
  '"dtype"', '"shape"', '"data_offsets"', '"__metadata__"', '"F32"', '{"BF16":null}', '"\\ud800"', '"\\ud83e\\udd80"', "é", "\u{1f980}", "[0,0]", "[]", "{}", '"b":', "[0,24]", "[24,32]",
].map((token) => Buffer.from(token));

/** Replaces, removes, inserts or repeats a few bytes or tokens. */
function mutated(header, below) {
  let bytes = header;
  for (let edits = 1 + below(3); edits > 0; edits--) {
    const at = below(bytes.length + 1);
    const length = below(2) === 0 ? 1 : below(24);
    const rest = bytes.subarray(Math.min(bytes.length, at + length));
    const parts = [
      () => [Buffer.of(below(256)), bytes.subarray(Math.min(bytes.length, at + 1))],
      () => [rest],
      () => [TOKENS[below(TOKENS.length)], bytes.subarray(at)],
      () => [TOKENS[below(TOKENS.length)], rest],
      () => [bytes.subarray(at, at + length), bytes.subarray(at)],
    ][below(5)]();
    bytes = Buffer.concat([bytes.subarray(0, at), ...parts]);
  }
  return bytes;
}

const MUTATIONS = isAll ? 20_000 : 4_000;

test(`${MUTATIONS} mutations of headers`, async (t) => {
  const below = numbers(21);
  const counts = {};
  const headers = [USUAL, `{"w":${ENTRY},"v":["U8",[1,1],[8,9]]}`, '{"__metadata__":{"a":"b"},"x":{"dtype":{"F16":null},"shape":[0],"data_offsets":[0,0]}}'].map((text) => Buffer.from(text));
  for (let number = 0; number < MUTATIONS; number++) {
    const header = mutated(headers[below(headers.length)], below);
    tally(counts, await agree(fileOf(header, [32, 9, 0][below(3)]), () => `mutation ${number}: ${JSON.stringify(header.toString())}`));
  }
  t.diagnostic(JSON.stringify(counts));
  assert.ok(counts.accepted > MUTATIONS / 200 && counts["safetensors.json"] > MUTATIONS / 4, "both verdicts occur");
});

test("the first bytes of every vector, and of files of other kinds, mean the same to both", async () => {
  const vectors = fileURLToPath(new URL("../../vectors/", import.meta.url));
  const names = readdirSync(vectors, { recursive: true }).filter((name) => /\.(zstn|z4dm|zt|gauss|safetensors|z4ai|bin|json)$/.test(name) && !/shard|index/.test(name));
  assert.ok(names.length > 300, `${names.length} vectors`);
  let plain = 0;
  const { isPacked } = await import("../../../wasm/dist/safetensors/file-kind.js");
  const others = ["", " ", "{", '{"a":1}', "<html>", "<?xml", "GGUF\x03\0\0\0\0\0\0\0", "PK\x03\x04abcdefgh", "\x08\0\0\0\0\0\0\0{}      ", "\x08\0\0\0\0\0\0\0", "\x08\0\0\0\0\0\0\0x", "\xff\xff\xff\xff\0\0\0\0{}", "abc\x7fdefg", "héllo wörld", "\xe9abcdefgh"];
  for (const file of [...names.map((name) => readFileSync(join(vectors, name))), ...others.map((text) => Buffer.from(text, "latin1"))]) {
    if (isShardIndex(file.subarray(0, 32768)) || (await isPacked(file.subarray(0, 32768)).catch(() => false))) continue;
    plain++;
    await agree(file, () => JSON.stringify(file.subarray(0, 16).toString("latin1")));
  }
  assert.ok(plain > 50, `${plain} files that TypeScript reads or refuses`);
});

/** Returns the outcome of the TypeScript reader for the text of an index. */
function indexOutcome(text) {
  try {
    const { files } = parseShardIndex(text);
    assert.deepEqual(files, [...files].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))), "by their bytes");
    return { accepted: true };
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error;
    const { code, rule, offset, tensor, message } = error;
    return { refused: { code, rule, offset, tensor, message } };
  }
}

test("indices of shards: difficult ones and 10 000 mutations", async (t) => {
  const usual = '{"metadata":{"total_size":1e999,"x":"\\ud800"},"weight_map":{"b":"m-2.safetensors","a":"m-1.safetensors","c":["m-2.safetensors","m-3"],"/c":"m.weights.h5","\u{1f980}":"\ue000","d":"\u{10000}"}}';
  const texts = [
    "", "{}", "[]", '{"weight_map":{}}', '{"weight_map":{"w":1}}', '{"weight_map":"w"}', '{"weight_map":{"w":"a"}', '{"weight_map":{"w":"a","w":"b"}}', '{"weight_map":{"w":"a","w":"a"}}',
    '{"weight_map":{"w":"a"},"weight_map":{"w":"a"}}', '{"weight_map":{"w":[]}}', '{"weight_map":{"w":["a",1]}}', '{"weight_map":{"w":["a","../b"]}}', '{"weight_map":{"w":[["a"]]}}', '{"weight_map":{"/w":"a","/w":["b"],"/v":"b.weights.h5","/v":"c.weights.h5"}}', '{"weight_map":{"w":"../a"}}', '{"weight_map":{"w":""}}', '{"weight_map":{"w":"."}}', '{"weight_map":{"w":"c:a"}}', '{"weight_map":{"w":"\\u0000"}}', '{"weight_map":{"w":"\\ud800"}}', '{"\\ud800":1,"weight_map":{"w":"a"}}',
    `{"x":${nested(5000)},"weight_map":{"w":"a"}}`, '{"x":"\\q","weight_map":{"w":"a"}}', '{"x":"\u0001","weight_map":{"w":"a"}}', '{"x":1e,"weight_map":{"w":"a"}}', usual,
  ].map((text) => Buffer.from(text));
  for (const text of ['{"x":"\xff","weight_map":{"w":"a"}}', '{"weight_map":{"w":"\xff"}}', '{"\xff":0,"weight_map":{"w":"a"}}', '{"x":{"\xff":0},"weight_map":{"w":"a"}}']) texts.push(Buffer.from(text, "latin1"));
  const below = numbers(7);
  for (let number = 0; number < 10_000; number++) texts.push(mutated(Buffer.from(usual), below));
  const counts = {};
  for (const text of texts) {
    const [ours, core] = [indexOutcome(text), await coreIndexOutcome(text)];
    for (const { refused } of [ours, core]) {
      if (refused) refused.message = refused.message.replace(/sharded checkpoint: .* at line \d+ column \d+\.$/, "sharded checkpoint: …").replace(/the shard ".*" is not/s, "the shard … is not");
    }
    assert.deepEqual(ours, core, JSON.stringify(text.toString("latin1")).slice(0, 500));
    tally(counts, ours.refused?.rule ?? "accepted");
  }
  t.diagnostic(JSON.stringify(counts));
  assert.ok(counts.accepted > 500 && counts["sharded.index"] > 1000);
});
