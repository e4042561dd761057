/**
 * Files that change after they were opened. The cases are in tests/faults/files.json, which the native library runs as
 * well.
 */

import assert from "node:assert/strict";
import { appendFileSync, closeSync, linkSync, mkdtempSync, openAsBlob, openSync, readFileSync, renameSync, rmSync, truncateSync, utimesSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { open } from "zstn";
import { writeReport } from "../support/fault-table.mjs";
import { version } from "../support/faulty-model.mjs";
import { scratchFolder } from "../support/scratch.mjs";

const { inputs } = JSON.parse(readFileSync(new URL("../../faults/files.json", import.meta.url), "utf8"));
const scratch = scratchFolder();
const file = version();

const ACTS = {
  overwrite(path) {
    const handle = openSync(path, "r+");
    writeSync(handle, "scribbled", Math.floor(file.bytes.length / 2));
    closeSync(handle);
  },
  truncate: (path) => truncateSync(path, 5000),
  grow: (path) => appendFileSync(path, "x"),
  replace(path) {
    writeFileSync(`${path}.beside`, new Uint8Array(file.bytes.length));
    renameSync(`${path}.beside`, path);
  },
  remove: (path) => rmSync(path),
  link: (path) => linkSync(path, `${path}.beside`),
};

/** How Node can open a file. A source that is added here is tested with all faults. */
const SURFACES = { npm_path: (path) => path, npm_blob: (path) => openAsBlob(path) };

test("a file that changes after it was opened gives no result of two versions", async () => {
  const runs = [];
  for (const [surface, sourceOf] of Object.entries(SURFACES)) {
    for (const { name, act, [surface]: expected } of inputs) {
      const problem = await run(sourceOf, act, expected).then(() => null, (error) => `${surface}, ${name}: ${error.message}`);
      runs.push({ case: name, surface: surface.replace("_", " "), problem });
    }
  }
  writeReport("npm-inputs", runs);
  assert.deepEqual(runs.flatMap(({ problem }) => problem ?? []), []);
});

async function run(sourceOf, act, expected) {
  const path = join(mkdtempSync(join(scratch, "m-")), "model.safetensors");
  writeFileSync(path, file.bytes);
  utimesSync(path, 1e9, 1e9);
  const model = await open(await sourceOf(path));
  ACTS[act](path);
  const found = await model.tensor("d").then(({ bytes }) => ({ bytes }), (error) => ({ error }));
  if (expected !== "right") return assert.equal(found.error?.code, expected, found.error?.message);
  if (found.error) throw new Error(`${found.error.code}: ${found.error.message}`);
  assert.ok(Buffer.from(found.bytes).equals(Buffer.from(file.tensors.d.bytes)), "the bytes");
}
