/** The viewer: one tensor in all layers. */

import assert from "node:assert/strict";
import { join } from "node:path";
import { browserTests } from "../support/browser.mjs";
import { LAYERS, layerValue, packWith, writeLayers } from "../support/plain-models.mjs";
import { counters, idle, openTensor, serveViewer, viewerFolder } from "../support/viewer.mjs";

const folder = viewerFolder();
const models = join(folder, "models");
let [server, hold] = [];

const { inBrowser } = browserTests({
  tier: "all",
  ready: async () => {
    await writeLayers(join(models, "odd.safetensors"));
    await packWith(join(models, "odd.safetensors"), join(models, "odd.zstn"), { statistics: false });
    server = await serveViewer(folder, (_request, path) => (path.startsWith("/models/") ? hold : undefined));
  },
  done: () => server?.stop(),
});

const rmsOf = (layer) => {
  let squares = 0;
  for (let row = 0; row < LAYERS.rows; row++) for (let column = 0; column < LAYERS.columns; column++) squares += layerValue(layer, row, column) ** 2;
  return Math.sqrt(squares / (LAYERS.rows * LAYERS.columns));
};

for (const src of ["models/odd.safetensors", "models/odd.zstn"]) {
  inBrowser(`the broken layer is seen at once, and costs no more than was said (${src})`, async (page, complaints) => {
    await openTensor(page, server, src, LAYERS.name(2));
    await idle(page);
    const before = await counters(page);
    const card = page.locator(".multiples");
    const [, amount, unit] = /Fetches at most ([\d.]+) (kB|MB)/.exec(await card.innerText());
    await card.getByRole("button", { name: "Show all layers" }).click();
    await page.waitForFunction((count) => document.querySelectorAll(".multiple .thumbnail-note").length === count && [...document.querySelectorAll(".thumbnail-note")].every((note) => /RMS/.test(note.textContent)), LAYERS.count);
    await idle(page);
    const after = await counters(page);
    const bytes = after.fetched - before.fetched;
    assert.ok(bytes > 0 && bytes <= Number(amount) * (unit === "MB" ? 1e6 : 1e3) * 1.02, `${bytes} bytes, at most ${amount} ${unit} were announced`);
    const unusual = card.locator(".multiple.unusual");
    assert.equal(await unusual.count(), 1);
    assert.equal(await unusual.locator("b").innerText(), String(LAYERS.broken));
    const shown = Number(/RMS (?:≈ )?([\d.e−]+)/.exec(await unusual.locator(".thumbnail-note").innerText())[1]);
    assert.ok(Math.abs(shown / rmsOf(LAYERS.broken) - 1) < 0.02, `${shown}, should be ${rmsOf(LAYERS.broken)}`);
    // All pictures share one scale, so the broken layer is darker than all others.
    const tones = await page.evaluate(() => [...document.querySelectorAll(".thumbnail")].map((canvas) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let sum = 0;
      for (let i = 0; i < data.length; i += 4) sum += data[i] + data[i + 1] + data[i + 2];
      return sum / (data.length / 4);
    }));
    assert.equal(tones.indexOf(Math.min(...tones)), LAYERS.broken);
    const rest = tones.filter((_, layer) => layer !== LAYERS.broken);
    assert.ok(Math.max(...rest) - Math.min(...rest) < 20 && Math.min(...rest) > tones[LAYERS.broken] + 60, tones.join(" "));
    await unusual.click();
    await page.getByRole("heading", { name: LAYERS.name(LAYERS.broken) }).waitFor();
    assert.deepEqual(complaints, []);
  });
}

inBrowser("reading all layers can be cancelled and continued", async (page) => {
  await openTensor(page, server, "models/odd.safetensors", LAYERS.name(0));
  await idle(page);
  let release;
  hold = new Promise((resolve) => (release = resolve));
  await page.getByRole("button", { name: "Show all layers" }).click();
  await page.getByRole("button", { name: "Cancel: All layers" }).click();
  release();
  hold = undefined;
  await page.getByRole("button", { name: "Continue" }).click();
  await page.waitForFunction(() => [...document.querySelectorAll(".thumbnail-note")].every((note) => /RMS/.test(note.textContent)));
});

inBrowser("a tensor without layers has no such card", async (page) => {
  await openTensor(page, server, "models/odd.safetensors", "norm.weight");
  await idle(page);
  assert.equal(await page.locator(".multiples").count(), 0);
});
