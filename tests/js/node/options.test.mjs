/** Unknown options and arguments of other types are rejected with a typed error by every call that takes options. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { compress, compressDelta, configure, decompress, decompressDelta, folderCache, open, opfsCache, pack, unpack, withCoalescing, withRetry, workerPool } from "zstn";
import { hub, listModelFiles } from "zstn/hub";
import { threadPool } from "zstn/threads";
import { safetensors } from "../support/checkpoint.mjs";

const bytes = Uint8Array.of(1, 2, 3, 4);
const file = safetensors({ w: { dtype: "U8", shape: [2, 2], bytes } });
const packed = async () => new Uint8Array(await (await pack(file)).blob.arrayBuffer());
const source = { size: () => 4, read: async () => bytes };

/** Runs a call that throws, or that returns a promise or an iterator that does. */
const run = async (call) => {
  const result = call();
  if (result && Symbol.asyncIterator in Object(result)) return result.next();
  return result;
};

test("an unknown option is refused by every call, with those that it has", async () => {
  for (const model of [await open(file), await open(await packed())]) {
    const wrong = { row: [0, 1] };
    for (const [call, known] of [
      [() => model.tensor("w", wrong), /tensor\(\) has no option `row`.* rows/],
      [() => model.plan("w", wrong), /plan\(\) has no option `row`.* rows/],
      [() => model.planes("w", wrong), /has no option `row`/],
      [() => model.statistics("w", wrong), /has no option `row`/],
      [() => model.stream(["w"], wrong), /stream\(\) has no option `row`.* readAheadBytes/],
      [() => model.asSafetensorsBlob(wrong), /has no option `row`.* cacheBytes/],
      [() => open(file, wrong), /open\(\) has no option `row`.* signal/],
      [() => open(new Blob([file]), { coalesce: wrong }), /has no option `row`.* maxGapBytes/],
      [() => pack(file, wrong), /pack\(\) has no option `row`.* effort/],
      [() => unpack(file, wrong), /unpack\(\) has no option `row`.* base/],
      [() => compress(bytes, wrong), /has no option `row`.* dtype/],
      [() => decompress(bytes, wrong), /has no option `row`.* maxBytes/],
      [() => compressDelta(bytes, bytes, wrong), /has no option `row`/],
      [() => decompressDelta(bytes, bytes, wrong), /has no option `row`/],
      [() => configure(wrong), /has no option `row`/],
      [() => configure({ wasm: wrong }), /has no option `row`/],
      [() => workerPool(wrong), /has no option `row`.* size/],
      [() => threadPool(wrong), /has no option `row`.* threads/],
      [() => withRetry(source, wrong), /has no option `row`.* retries/],
      [() => withCoalescing(source, wrong), /has no option `row`/],
      [() => folderCache("/nowhere", wrong), /has no option `row`.* maxBytes/],
      [() => opfsCache(wrong), /has no option `row`.* folder/],
      [() => hub("o/n", wrong), /has no option `row`.* revision/],
      [() => listModelFiles("o/n", wrong), /has no option `row`/],
      [() => model.tensor("w", 5), /has no option `5`/],
      [() => model.tensor("w", null), /has no option `null`/],
      [() => open(file, "max"), /has no option `max`/],
    ]) {
      await assert.rejects(run(async () => run(call)), { code: "invalid_input", message: known }, String(call));
    }
    await model.tensor("w", { rows: undefined, signal: undefined });
    model.close();
  }
});

test("rows are a pair", async () => {
  for (const model of [await open(file), await open(await packed())]) {
    for (const rows of [5, 0, "01", null, [1], [0, 1, 2], { begin: 0 }, new Map()]) {
      for (const call of [() => model.tensor("w", { rows }), () => model.plan("w", { rows })]) await assert.rejects(call, { code: "invalid_input", message: /`rows` must be a pair \[begin, end\]/ });
    }
    for (const rows of [[0, 3], [1, 0], [-1, 1], [0, 1.5], ["0", 1], [undefined, 1]]) await assert.rejects(model.tensor("w", { rows }), { code: "invalid_input", message: /out of range/ });
    model.close();
  }
});

test("a port that no page or program reaches is said to be that", async () => {
  await assert.rejects(open("http://127.0.0.1:1/x.zstn", { retries: 0 }), (error) => error.code === "network" && /port that this runtime blocks/.test(error.message) && !/redirects/.test(error.message));
});

test("an endpoint is for hf:// addresses", async () => {
  await assert.rejects(open(file, { endpoint: "http://hub.example" }), { code: "invalid_input", message: /`endpoint` is for hf:\/\/ addresses/ });
  await assert.rejects(pack(file, { endpoint: "http://hub.example" }), { code: "invalid_input", message: /`endpoint` is for hf:\/\/ addresses/ });
});

test("numbers of workers and threads are a small multiple of the cores", async () => {
  for (const size of [-1, 1.5, 10_000, Number.NaN, "4"]) {
    assert.throws(() => workerPool({ size }), { code: "invalid_input", message: /number of workers must be a whole number from 0 to \d+/ });
    assert.throws(() => threadPool({ threads: size }), { code: "invalid_input", message: /number of threads must be a whole number from 1 to \d+/ });
    await assert.rejects(open(await packed(), { workers: size }), { code: "invalid_input", message: /number of workers/ });
  }
});
