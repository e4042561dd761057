import assert from "node:assert/strict";
import { test } from "node:test";
import { parseContentRange } from "../../../wasm/dist/source/http/content-range.js";

test("a served range gives first, last and size", () => {
  assert.deepEqual(parseContentRange("bytes 0-99/1000"), { sent: { first: 0, last: 99 }, sizeBytes: 1000 });
  assert.deepEqual(parseContentRange(" Bytes  7-7/8 "), { sent: { first: 7, last: 7 }, sizeBytes: 8 });
});

test("an asterisk stands for an unknown size or an unserved range", () => {
  assert.deepEqual(parseContentRange("bytes 5-9/*"), { sent: { first: 5, last: 9 } });
  assert.deepEqual(parseContentRange("bytes */1000"), { sizeBytes: 1000 });
});

for (const header of ["", "bytes", "items 0-9/10", "bytes 9-0/10", "bytes 0-10/10", "bytes -5-9/10", "bytes 0-99999999999999999999/*", "bytes 0-9/10, bytes 0-9/10"]) {
  test(`"${header}" is no range`, () => assert.equal(parseContentRange(header), undefined));
}
