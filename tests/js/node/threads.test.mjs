/** `zstn/threads` in Node: it gives the same bytes and errors, and lets the process end. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { open } from "zstn";
import { threadPool } from "zstn/threads";
import { scratchFolder } from "../support/scratch.mjs";
import { withoutThreads as skip } from "../support/threads.mjs";
import { badContainers, goodContainers, goodGauss, goodZTensors, readableByName, vectorPath } from "../support/vectors.mjs";

const run = promisify(execFile);

/** Returns the bytes or the error of every tensor, or the error of opening. */
async function outcomes(path, workers) {
  const words = ({ name, rule, offset, tensor, message }) => ({ name, rule, offset, tensor, message });
  try {
    const model = await open(path, { workers });
    const all = await Promise.all(Array.from(model.tensors.keys(), (name) => model.tensor(name).then(({ data }) => data, words)));
    model.close();
    return all;
  } catch (error) {
    return words(error);
  }
}

test("threads make no difference", { skip }, async () => {
  const pool = threadPool({ threads: 2, minBytes: 0 });
  const files = [
    ...goodContainers.filter(readableByName).map(({ container }) => vectorPath("zstn", container.file)),
    ...badContainers.map(({ file }) => vectorPath("zstn-bad", file)),
    ...goodGauss.map(({ name }) => vectorPath("gauss", `${name}.gauss`)),
    ...goodZTensors.map(({ file }) => vectorPath("ztensor", file)),
  ];
  for (const file of files) assert.deepEqual(await outcomes(file, pool), await outcomes(file, 0), file);
  assert.ok(pool.decoded > 200, `${pool.decoded} tensors`);
  assert.deepEqual([pool.running, pool.startError], [1, undefined]);
  pool.close();
});

test("a program with threads ends by itself, and not before it has its tensor", { skip }, async () => {
  const program = join(scratchFolder(), "program.mjs");
  const text = `
    import { open } from ${JSON.stringify(import.meta.resolve("zstn"))};
    import { threadPool } from ${JSON.stringify(import.meta.resolve("zstn/threads"))};
    const model = await open(${JSON.stringify(vectorPath("zstn", "float_weights.zstn"))}, { workers: threadPool({ minBytes: 0 }) });
    for (const name of model.tensors.keys()) console.log((await model.tensor(name)).bytes.length);
  `;
  writeFileSync(program, text);
  const { stdout } = await run(process.execPath, [program], { timeout: 20_000 });
  const model = await open(vectorPath("zstn", "float_weights.zstn"));
  assert.deepEqual(stdout.trim().split("\n").map(Number), Array.from(model.tensors.values(), ({ byteLength }) => byteLength));
});

test("a number of threads that is none is refused", () => {
  for (const threads of [0, 1.5]) assert.throws(() => threadPool({ threads }), { code: "invalid_input" });
});
