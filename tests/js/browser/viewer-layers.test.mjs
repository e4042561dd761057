/** The viewer: the layer matrix, for small models and for one with 70 billion parameters. */

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { browserTests } from "../support/browser.mjs";
import { safetensors, writeLanguageModel } from "../support/checkpoint.mjs";
import { pack } from "../support/cli.mjs";
import { counters, goTo, idle, openModel, serveViewer, viewerFolder } from "../support/viewer.mjs";
import { HUGE, hugeHeader, serveHuge } from "../support/viewer-models.mjs";

const folder = viewerFolder();
const models = join(folder, "models");
let [server, huge] = [];

const { inBrowser } = browserTests({
  tier: "all",
  ready: async () => {
    await writeLanguageModel(join(models, "model.safetensors"));
    await pack(join(models, "model.safetensors"), join(models, "model.zstn"));
    const tensor = (...shape) => ({ dtype: "U8", shape, bytes: new Uint8Array(shape.reduce((a, b) => a * b, 1)) });
    const experts = Object.fromEntries([0, 1].flatMap((layer) => [0, 1, 2].map((expert) => [`layers.${layer}.experts.${expert}.up.weight`, tensor(4, 2 + expert)])));
    writeFileSync(join(models, "experts.safetensors"), safetensors({ ...experts, "layers.1.gate.weight": tensor(3, 3), "odd.7.weight": tensor(5) }));
    server = await serveViewer(folder);
    huge = await serveHuge();
  },
  done: async () => {
    await server?.stop();
    await huge?.stop();
  },
});

const headings = (page) => page.locator(".grid-head [role=columnheader]").evaluateAll((all) => all.slice(1).map((node) => node.title));

inBrowser("rows are layers, columns are modules, and a cell says what it is", async (page, complaints) => {
  await openModel(page, server, "models/model.zstn");
  await page.getByRole("button", { name: "Layers" }).click();
  assert.equal(new URL(page.url()).searchParams.get("picture"), "layers");
  assert.deepEqual(await headings(page), ["attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"], "matrices first");
  await page.getByRole("button", { name: "Biases and norms" }).click();
  assert.deepEqual(await headings(page), ["ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj"]);
  assert.equal(await page.locator(".cell-grid [role=row]").count(), 1 + 5);
  assert.equal(await page.locator(".outside-cell").count(), 4);
  await page.getByLabel("Colour by").selectOption("size");
  const cell = page.locator('.cell[aria-label^="transformer.h.3.mlp.c_fc.weight:"]');
  assert.equal(await cell.getAttribute("data-value"), String(2 * 512 * 2048));
  await cell.hover();
  await page.locator(".caption", { hasText: "transformer.h.3.mlp.c_fc.weight size 2.10 MB" }).waitFor();
  assert.equal(new URL(page.url()).searchParams.get("colour"), "size");
  await cell.click();
  await page.getByRole("heading", { name: "transformer.h.3.mlp.c_fc.weight" }).waitFor();
  await page.goBack();
  await cell.waitFor();
  assert.equal(await page.getByLabel("Colour by").inputValue(), "size");
  assert.deepEqual(complaints, []);
});

inBrowser("experts share a cell; what has no like is outside; the keyboard reaches every cell", async (page, complaints) => {
  await openModel(page, server, "models/experts.safetensors", { picture: "layers", colour: "size" });
  assert.deepEqual(await headings(page), ["experts.*.up", "gate"]);
  assert.deepEqual(await page.locator(".outside-cell").allTextContents(), ["odd.7"]);
  const value = (layer, kind) => page.locator(`.cell[aria-label^="layers.${layer}.${kind}.weight:"]`).getAttribute("data-value");
  assert.equal(await value(0, "experts.*.up"), String(4 * (2 + 3 + 4)));
  assert.equal(await value(1, "gate"), "9");
  await page.locator(".cell[tabindex='0']").focus();
  await page.keyboard.press("ArrowDown");
  await page.locator(".caption", { hasText: "layers.1.experts.*.up.weight" }).waitFor();
  await page.keyboard.press("ArrowRight");
  await page.locator(".caption", { hasText: "layers.1.gate.weight" }).waitFor();
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "layers.1.experts.2.up.weight" }).waitFor();
  assert.deepEqual(complaints, []);
});

inBrowser("70 billion parameters: the matrix is painted from the index alone, in less than 2 MB", async (page, complaints) => {
  await goTo(page, server, { src: huge.url, picture: "layers" });
  await page.getByRole("button", { name: "Biases and norms" }).click();
  await page.locator(".cell").first().waitFor();
  assert.equal(await page.locator(".cell-grid .cell").count(), HUGE.layers * HUGE.modules);
  const { parameters } = hugeHeader();
  assert.ok(parameters > 68e9 && parameters < 72e9, String(parameters));
  assert.deepEqual((await page.locator(".fact").allInnerTexts()).slice(0, 4), [`${(parameters / 1e9).toFixed(1)} B parameters ${parameters.toLocaleString("en-US")}`, `${HUGE.layers} layers`, "8,192 wide", "vocabulary 128,256"]);
  const painted = await page.locator(".cell-grid .cell").evaluateAll((cells) => cells.every((cell) => cell.dataset.value !== undefined && cell.getBoundingClientRect().height >= 6));
  assert.ok(painted, "every cell has its colour and is large enough to be seen");
  const box = await page.locator(".cell-grid").boundingBox();
  assert.ok(box.height < 800, `all layers are on the screen together: ${box.height} px`);
  await idle(page);
  assert.ok(huge.sentBytes() < 2e6, `${huge.sentBytes()} bytes`);
  assert.ok((await counters(page)).fetched <= huge.sentBytes());
  assert.deepEqual(complaints, []);
});
