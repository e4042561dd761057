/** The viewer: a vector is shown as a line by index, not as a matrix. */

import assert from "node:assert/strict";
import { join } from "node:path";
import { browserTests } from "../support/browser.mjs";
import { noise, writeVectors } from "../support/plain-models.mjs";
import { idle, openTensor, saved, serveViewer, typeInto, viewerFolder } from "../support/viewer.mjs";

const folder = viewerFolder();
let server;

const { inBrowser } = browserTests({
  tier: "all",
  ready: async () => {
    await writeVectors(join(folder, "models", "odd.safetensors"));
    server = await serveViewer(folder);
  },
  done: () => server?.stop(),
});

const opened = async (page, tensor, route) => {
  await openTensor(page, server, "models/odd.safetensors", tensor, route);
  await idle(page);
  await page.locator(".heatmap-box .caption").filter({ hasText: /./ }).waitFor();
};

inBrowser("a vector is drawn by index, and has neither rows nor columns", async (page, complaints) => {
  await opened(page, "norm.weight");
  assert.equal(await page.locator(".heatmap").count(), 0);
  assert.equal(await page.getByText(/norms|RMS by/).count(), 0);
  assert.match(await page.locator(".heatmap-box .caption").innerText(), /^Values 0–599 of 600; every value$/);
  const plot = page.locator(".line-plot");
  const box = await plot.boundingBox();
  await page.mouse.move(box.x + (100.5 / 600) * box.width, box.y + box.height / 2);
  await page.locator(".pill").filter({ hasText: "index 100 · −3" }).waitFor();
  await typeInto(page.getByLabel("Index", { exact: true }), "95");
  await page.locator("table.values tbody th", { hasText: /^95$/ }).waitFor();
  const cells = await page.locator("table.values tbody td").allInnerTexts();
  assert.equal(cells[5], "−3");
  assert.equal(await page.getByLabel("Column", { exact: true }).count(), 0);
  assert.deepEqual(complaints, []);
});

inBrowser("a long vector is sampled with gaps, zoomed into every value, and the URL holds the part", async (page, complaints) => {
  await opened(page, "long.bias");
  assert.match(await page.locator(".sampled").innerText(), /of 5,000,000 values/);
  assert.match(await page.locator(".heatmap-box .caption").innerText(), /sampled/);
  await opened(page, "long.bias", { at: "1000000-1000200" });
  await page.locator('.caption[data-complete="true"]').waitFor();
  const box = await page.locator(".line-plot").boundingBox();
  await page.mouse.move(box.x + (50.5 / 200) * box.width, box.y + 10);
  const pill = page.locator(".pill").filter({ hasText: "index 1,000,050 · " });
  await pill.waitFor();
  const shown = Number((await pill.innerText()).split(" · ")[1].replace("−", "-"));
  assert.ok(Math.abs(shown - Math.fround(noise(1_000_050, 7) + 1_000_050 / 5e6)) < 1e-3, String(shown));
  await page.getByRole("button", { name: "Zoom in" }).click();
  await page.waitForURL(/at=1000050-1000150/);
  await page.getByRole("button", { name: "Fit", exact: true }).click();
  await page.waitForURL((url) => !url.searchParams.has("at"));
  const { name, bytes } = await saved(page, () => page.getByRole("button", { name: "Save image" }).click());
  assert.equal(name, "long.bias.png");
  assert.ok(bytes.length > 5000);
  assert.deepEqual(complaints, []);
});
