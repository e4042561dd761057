/** The messages about files that are not models are the same on every surface. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { open, pack } from "zstn";
import { safetensors } from "../support/checkpoint.mjs";
import { describeNonModel } from "../../../wasm/dist/not-a-model.js";

const { formats, others } = JSON.parse(readFileSync(new URL("../../other-formats.json", import.meta.url), "utf8"));
const bytesOf = (hex) => new Uint8Array(Buffer.from(hex, "hex"));

for (const { name, sentence, heads } of formats) {
  test(`${name}: said when it is described, opened or packed`, async () => {
    assert.match(sentence, /^Th.*\.$/);
    for (const head of heads) {
      assert.equal(describeNonModel(bytesOf(head)), sentence, head);
      // The same bytes at the beginning of a file that is longer than the first read.
      const file = new Uint8Array(50_000);
      file.set(bytesOf(head));
      // A JSON object may be meant as an index, so the error of the index parser is reported.
      const message = name === "JSON" && bytesOf(head)[0] === 0x7b ? /not the index of a sharded checkpoint/ : sentence;
      for (const input of [file, bytesOf(head), new Blob([bytesOf(head)])]) await assert.rejects(open(input), { name: "FormatError", code: "malformed", message }, head);
    }
  });
}

test("other bytes are not described, nor are beginnings that are cut off anywhere", () => {
  for (const head of others) assert.equal(describeNonModel(bytesOf(head)), undefined, head);
  const known = new Set([undefined, ...formats.map(({ sentence }) => sentence)]);
  for (const { heads } of formats) for (const head of heads) for (let end = 0; end < head.length / 2; end++) assert.ok(known.has(describeNonModel(bytesOf(head).subarray(0, end))));
});

test("a failed download is described where it is packed, too, and other files are packed without a base", async () => {
  const base = safetensors({ a: { dtype: "U8", shape: [1], bytes: Uint8Array.of(1) } });
  for (const [name, isDownload] of [["web page", true], ["GGML", false], ["pickle", false]]) {
    const { sentence, heads } = formats.find((format) => format.name === name);
    const file = bytesOf(heads[0]);
    const refused = isDownload ? { name: "FormatError", message: sentence } : { name: "InvalidInputError", message: /only these are stored as a delta/ };
    await assert.rejects(pack(file, { base }), refused, name);
    if (isDownload) await assert.rejects(pack(file), refused);
    else assert.equal((await pack(file)).original.kind, "bytes");
  }
});
