import assert from "node:assert/strict";
import { getEventListeners, once } from "node:events";
import { test } from "node:test";
import { abortSiblingsOnFailure } from "../../../wasm/dist/abort-siblings.js";
import { open } from "zstn";
import { safetensors } from "../support/checkpoint.mjs";

const never = (signal) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }));

test("reads end with any of the signals, for its reason", async () => {
  for (const which of [0, 1]) {
    const stops = [new AbortController(), new AbortController()];
    const reason = new Error(`signal ${which}`);
    const reading = abortSiblingsOnFailure([stops[0].signal, undefined, stops[1].signal], never);
    stops[which].abort(reason);
    await assert.rejects(reading, (error) => error === reason);
  }
  const reason = new Error("before");
  await assert.rejects(abortSiblingsOnFailure([AbortSignal.abort(reason)], () => assert.fail("started")), (error) => error === reason);
});

test("when one read fails, the others end; what has succeeded is not aborted later", async () => {
  let seen;
  await assert.rejects(abortSiblingsOnFailure([], (signal) => ((seen = signal), Promise.all([never(signal), Promise.reject(new Error("lost"))]))), { message: "lost" });
  assert.equal(seen.aborted, true);
  const stop = new AbortController();
  assert.equal(await abortSiblingsOnFailure([stop.signal], async (signal) => ((seen = signal), 7)), 7);
  stop.abort();
  assert.equal(seen.aborted, false);
});

test("a signal that many reads share has one listener, during and after them", async () => {
  const { signal } = new AbortController();
  await Promise.all(Array.from({ length: 100 }, () => abortSiblingsOnFailure([signal], async () => assert.equal(getEventListeners(signal, "abort").length, 1))));
  assert.equal(getEventListeners(signal, "abort").length, 1);
});

test("many reads with one signal give no warning", async () => {
  const tensors = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`t${i}`, { dtype: "U8", shape: [10], bytes: new Uint8Array(10) }]));
  const bytes = safetensors(tensors);
  const model = await open(new Blob([bytes]));
  const { signal } = new AbortController();
  const warned = [];
  const onWarning = (warning) => warned.push(warning.message);
  process.on("warning", onWarning);
  await Promise.all(Object.keys(tensors).map((name) => model.tensor(name, { signal })));
  process.emitWarning("the last one");
  await once(process, "warning");
  process.off("warning", onWarning);
  assert.deepEqual(warned, ["the last one"]);
});
