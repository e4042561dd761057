/** `@huggingface/hub`, which does not support packed files, with `zstn gateway`. */

import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { downloadFile, fileDownloadInfo, listFiles, parseSafetensorsMetadata } from "@huggingface/hub";
import { open } from "zstn";
import { MIDDLE_TENSOR, writeLanguageModel } from "../support/checkpoint.mjs";
import { gateway, pack } from "../support/cli.mjs";
import { scratchFolder } from "../support/scratch.mjs";

const scratch = scratchFolder();
const original = join(scratch, "model.safetensors");
const repo = "me/model";
const path = "model.safetensors";
let server;
let hub;
let tensors;

before(async () => {
  tensors = await writeLanguageModel(original);
  mkdirSync(join(scratch, "hub", repo), { recursive: true });
  await pack(original, join(scratch, "hub", repo, "model.zstn"));
  server = await gateway(join(scratch, "hub"));
  hub = { hubUrl: server.url.replace(/\/$/, ""), repo };
});
after(() => server?.stop());

test("the packed file is listed and downloaded as the original", async () => {
  const found = [];
  for await (const entry of listFiles({ ...hub, recursive: true })) found.push(entry);
  const bytes = readFileSync(original);
  assert.deepEqual(found.map((entry) => [entry.path, entry.size]), [[path, bytes.length]]);
  const info = await fileDownloadInfo({ ...hub, path });
  assert.equal(info.size, bytes.length);
  const file = await downloadFile({ ...hub, path });
  assert.ok(Buffer.from(await file.arrayBuffer()).equals(bytes));
});

test("a part of it is read by range", async () => {
  const file = await downloadFile({ ...hub, path });
  const part = file.slice(1000, 3000);
  assert.deepEqual(Buffer.from(await part.arrayBuffer()), readFileSync(original).subarray(1000, 3000));
  const { header } = await parseSafetensorsMetadata({ ...hub, path });
  assert.deepEqual(header[MIDDLE_TENSOR].shape, tensors[MIDDLE_TENSOR].shape);
});

test("a file that is not there is undefined", async () => {
  assert.equal(await fileDownloadInfo({ ...hub, path: "missing.safetensors" }), null);
});

test("this package reads either file through it", async () => {
  for (const name of ["model.safetensors", "model.zstn"]) {
    const model = await open(`${hub.hubUrl}/${repo}/resolve/main/${name}`);
    const tensor = await model.tensor(MIDDLE_TENSOR);
    assert.deepEqual(Buffer.from(tensor.bytes), Buffer.from(tensors[MIDDLE_TENSOR].bytes));
  }
});
