/**
 * Runs the code blocks of docs/npm/hand-off.md for pages unchanged: with onnxruntime-web, and with WebGPU on a software
 * device.
 */

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { browserTests, onlyChromium } from "../support/browser.mjs";
import { modules, withoutConsumers } from "../support/consumers.mjs";
import { lookup } from "../support/onnx.mjs";
import { WEIGHTS, block, blocks, writeModels } from "../support/readme.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { startSite } from "../support/server.mjs";

const PAGE = "docs/npm/hand-off.md";
const models = join(scratchFolder(), "models");
const IMPORTS = JSON.stringify({ imports: { zstn: "/zstn/web.js", "onnxruntime-web": "/ort/ort.wasm.bundle.min.mjs" } });
const ROWS = [12, 13, 14, 15, 20, 21, 22, 23].map((i) => new Float32Array(Uint32Array.of(WEIGHTS[i] << 16).buffer)[0]);

/** A page that runs `code` and then stores the value of the expression `found` as its result. */
const page = (code, found) =>
  `<!doctype html><title>hand-off</title><link rel="icon" href="data:,"><script type="importmap">${IMPORTS}</script><body><script type="module">${code}\ndocument.body.dataset.found = JSON.stringify(${found});</script>`;

/** Code that copies a GPU buffer back to memory. */
const READ_BACK = `await (async () => {
  const out = device.createBuffer({ size: buffer.size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(buffer, 0, out, 0, buffer.size);
  device.queue.submit([encoder.finish()]);
  await out.mapAsync(GPUMapMode.READ);
  return [...new Uint16Array(out.getMappedRange())];
})()`;

const HALVES = `(() => {
  const numbers = Float32Array.from({ length: 70_000 }, (_, i) => Math.sin(i) * 2 ** ((i % 60) - 30));
  return globalThis.Float16Array === undefined || [...new Uint16Array(new Float16Array(numbers).buffer)].join() === [...new Uint16Array(t.toFloat16().buffer)].join();
})()`;

let site;
const { inBrowser } = browserTests({
  chromiumArgs: ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"],
  ready: async () => {
    mkdirSync(models);
    await writeModels(models);
    writeFileSync(join(models, "lookup.onnx"), lookup());
    const half = `import { TypedTensor } from "/zstn/tensor.js"; const data = Float32Array.from({ length: 70_000 }, (_, i) => Math.sin(i) * 2 ** ((i % 60) - 30)); const t = new TypedTensor("F32", { name: "t", shape: [70_000] }, data);`;
    const pages = {
      "/ort.html": page(block(PAGE, "js browser", 'from "onnxruntime-web"'), "[[...rows.data], rows.dims]"),
      "/gpu.html": page(block(PAGE, "js browser", "navigator.gpu"), READ_BACK),
      "/hub.html": page(`import { open } from "zstn"; const model = await open("hf://owner/name@v1"); const t = await model.tensor("wte.weight");`, "[model.kind, [...t.data]]"),
      "/half.html": page(half, HALVES),
    };
    const dist = fileURLToPath(new URL("../../../wasm/dist/", import.meta.url));
    site = await startSite({ "/zstn/": dist, "/ort/": join(modules, "onnxruntime-web/dist/"), "/": models }, pages);
  },
  done: () => site?.stop(),
});

async function found(page, name) {
  await page.goto(`${site.url}${name}`);
  await page.waitForSelector("body[data-found]", { state: "attached" });
  return JSON.parse(await page.evaluate(() => document.body.dataset.found));
}

inBrowser("the blocks for pages are those that are run here", async () => assert.equal(blocks(PAGE, "js browser").length, 2));

inBrowser("onnxruntime-web", async (page) => assert.deepEqual(await found(page, "ort.html"), [ROWS, [2, 4]]), { skip: withoutConsumers });

inBrowser("a tensor is read to a buffer of a GPU", async (page, complaints) => {
  assert.deepEqual(await found(page, "gpu.html"), [...WEIGHTS]);
  assert.deepEqual(complaints.filter((text) => !/WebGPU is experimental/.test(text)), []);
}, { skip: onlyChromium("WebGPU on a software device is Chromium's") });

inBrowser("toFloat16 gives the bits of the browser's own Float16Array", async (page) => assert.equal(await found(page, "half.html"), true));

inBrowser("an hf:// address is read from Hugging Face, at the commit of its revision", async (page, complaints) => {
  const asked = [];
  const sha = "0123456789abcdef0123456789abcdef01234567";
  await page.route("https://huggingface.co/**", (route) => {
    const { pathname } = new URL(route.request().url());
    asked.push(pathname);
    const listing = JSON.stringify({ id: "owner/name", sha, siblings: [{ rfilename: "README.md" }, { rfilename: "model.safetensors" }] });
    return route.fulfill({ headers: { "access-control-allow-origin": "*" }, body: pathname.startsWith("/api/") ? listing : readFileSync(join(models, "model.safetensors")) });
  });
  assert.deepEqual(await found(page, "hub.html"), ["safetensors", [...WEIGHTS]]);
  assert.deepEqual(asked, ["/api/models/owner/name/revision/v1", `/owner/name/resolve/${sha}/model.safetensors`]);
  assert.deepEqual(complaints, []);
});
