/** A Vite project that installs the packed package, built with Vite's defaults. */

import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "vite";
import { browserTests } from "../support/chromium.mjs";
import { serve } from "../support/cli.mjs";
import { installPacked } from "../support/packed.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { goodContainers, vectorPath } from "../support/vectors.mjs";

const container = goodContainers.find(({ name }) => name === "all_dtypes");
const project = scratchFolder();
const site = join(project, "dist");
let server;

const APP = `
import { compress, decompress, open } from "zstn";
const model = await open("model.zstn");
const tensor = await model.tensor("t.f32");
document.body.dataset.sum = String(tensor.toFloat32().reduce((sum, value) => sum + value, 0));
globalThis.backAndForth = async () => (await decompress(await compress(tensor.bytes, { dtype: "F32" }))).length === tensor.bytes.length;
document.body.dataset.tensors = String(model.tensors.size);
`;

const { inBrowser } = browserTests({
  ready: async () => {
    await installPacked(project);
    mkdirSync(join(project, "src"));
    writeFileSync(join(project, "package.json"), '{"type": "module"}');
    writeFileSync(join(project, "index.html"), '<!doctype html><title>app</title><link rel="icon" href="data:,"><body><script type="module" src="/src/main.js"></script>');
    writeFileSync(join(project, "src/main.js"), APP);
    await build({ root: project, configFile: false, logLevel: "warn" });
    copyFileSync(vectorPath("zstn", container.container.file), join(site, "model.zstn"));
    server = await serve(site);
  },
  done: () => server?.stop(),
});

inBrowser("the built page finds the WebAssembly module and reads a tensor", async (page, complaints) => {
  await page.goto(`${server.url}index.html`);
  await page.waitForSelector("body[data-tensors]", { state: "attached" });
  const got = await page.evaluate(() => ({ ...document.body.dataset }));
  const [begin, end] = container.tensors.find(({ name }) => name === "t.f32").data_offsets;
  const original = readFileSync(vectorPath("zstn", container.original.file));
  const data = original.subarray(8 + container.layout.header_len);
  const values = Array.from({ length: (end - begin) / 4 }, (_, i) => data.readFloatLE(begin + 4 * i));
  assert.equal(got.tensors, "22");
  assert.equal(Number(got.sum), values.reduce((sum, value) => sum + value, 0));
  assert.deepEqual(complaints, []);
  const log = await server.settled(3);
  assert.equal(log.filter(({ path }) => path.includes("zstn_wasm_bg")).length, 1, "the module is a file of its own, fetched once");
  assert.equal(log.filter(({ path }) => /zstn_(coder|formats)/.test(path)).length, 0, "what packs and what reads other formats is not fetched");
  assert.equal(await page.evaluate("globalThis.backAndForth()"), true, "until it is used");
  assert.deepEqual(complaints, []);
});
