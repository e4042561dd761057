import assert from "node:assert/strict";
import { test } from "node:test";
import { requestedRange } from "../../../wasm/dist/safetensors-view/range-header.js";

for (const [header, expected] of [
  [null, "whole"],
  ["", "whole"],
  ["bytes=0-9", [0, 10]],
  ["Bytes=0-0", [0, 1]],
  ["bytes=5-", [5, 100]],
  ["bytes=-7", [93, 100]],
  ["bytes=-700", [0, 100]],
  ["bytes=90-5000000000000000000000", [90, 100]],
  ["bytes=99-99", [99, 100]],
  ["bytes=100-", "unsatisfiable"],
  ["bytes=100-200", "unsatisfiable"],
  ["bytes=-0", "unsatisfiable"],
  ["bytes=9-5", "whole"],
  ["bytes=-", "whole"],
  ["bytes=a-b", "whole"],
  ["bytes=0-1,5-6", "whole"],
  ["items=0-1", "whole"],
]) {
  test(`Range: ${header}`, () => assert.deepEqual(requestedRange(header, 100), Array.isArray(expected) ? { begin: expected[0], end: expected[1] } : expected));
}

test("an empty file has no ranges", () => {
  for (const header of ["bytes=0-0", "bytes=-5", "bytes=0-"]) assert.equal(requestedRange(header, 0), "unsatisfiable");
});
