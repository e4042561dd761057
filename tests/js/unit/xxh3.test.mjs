/** XXH3 in TypeScript, compared with the reference implementation for every way in which a length is hashed. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { xxh3 } from "../../../wasm/dist/zstn/xxh3.js";

/** Checksums of the bytes 0, 1, …, 250, 0, 1, … by length, computed with xxHash 0.8. */
const REFERENCE = {
  0: "2d06800538d394c2", 1: "c44bdff4074eecdb", 2: "d6645fc3051a9457", 3: "5f4299fc161c9cbb", 4: "60dab036a58211f2", 5: "b075753a84ca0fbe", 8: "3a1c2d7c85af88f8",
  9: "e9612598145bb9dc", 15: "55ecedc2b87bb042", 16: "8355e3a6f61770db", 17: "9ef341a99de37328", 31: "4f36db8e4df378fd", 32: "3523581fe96e4c05", 33: "e68c56ba88991e58",
  126: "6c2a9eb7459cdc61", 127: "120b9787f8425f2f", 128: "85c6174c7ff4c46b", 129: "ec7642b431ba3e5a", 131: "e57f7ea6741fe3a0", 238: "30449a0b4899dee9", 240: "375a384d957fe865",
  241: "02e8cd95421c6d02", 244: "bc17c91ec3cf8d7f", 1024: "e5d78bafa45b2aa5", 10240: "bcd63266df6e2244",
};

test("checksums are those of the reference implementation, wherever the bytes are in memory", () => {
  for (const [length, expected] of Object.entries(REFERENCE)) {
    for (const offset of [0, 1]) {
      const bytes = new Uint8Array(Number(length) + offset).subarray(offset);
      for (let i = 0; i < bytes.length; i++) bytes[i] = i % 251;
      assert.equal(xxh3(bytes).toString(16).padStart(16, "0"), expected, `${length} bytes at ${offset}`);
    }
  }
});
