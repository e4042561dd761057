/** The viewer: two tensors, side by side and as their difference. */

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { safetensors, writeLanguageModel } from "../support/checkpoint.mjs";
import { browserTests } from "../support/browser.mjs";
import { pack } from "../support/cli.mjs";
import { counters, figures, goTo, idle, near, openModel, row, serveViewer, typeInto, valuesOf, viewerFolder } from "../support/viewer.mjs";

const folder = viewerFolder();
const models = join(folder, "models");
const NAME = "transformer.h.2.attn.c_proj.weight";
/** The distance between the values that the fine-tune changes, in elements. */
const EVERY = 50;
let [server, base, tuned] = [];

const { inBrowser } = browserTests({
  ready: async () => {
    base = await writeLanguageModel(join(models, "base.safetensors"));
    const words = new Uint16Array(Uint8Array.from(base[NAME].bytes).buffer);
    for (let i = 0; i < words.length; i += EVERY) words[i] ^= 1;
    tuned = { ...base, [NAME]: { ...base[NAME], bytes: new Uint8Array(words.buffer) } };
    writeFileSync(join(models, "tuned.safetensors"), safetensors(tuned, { format: "pt" }));
    writeFileSync(join(models, "mine.safetensors"), safetensors({ "a.weight": { dtype: "U8", shape: [4], bytes: new Uint8Array(4) } }));
    await pack(join(models, "base.safetensors"), join(models, "base.zstn"));
    await pack(join(models, "tuned.safetensors"), join(models, "tuned.z4dm"), { base: join(models, "base.safetensors") });
    server = await serveViewer(folder);
  },
  done: () => server?.stop(),
});

/** Statistics of the fine-tune minus the base. */
function difference() {
  const [a, b] = [valuesOf(tuned[NAME]), valuesOf(base[NAME])];
  const apart = a.map((value, i) => value - b[i]);
  const norm = Math.sqrt(apart.reduce((sum, value) => sum + value * value, 0));
  return {
    changed: apart.filter((value) => value !== 0).length,
    norm,
    "relative norm": norm / Math.sqrt(b.reduce((sum, value) => sum + value * value, 0)),
    min: apart.reduce((x, y) => Math.min(x, y)),
    max: apart.reduce((x, y) => Math.max(x, y)),
  };
}

async function checkDifference(page) {
  const shown = await figures(page);
  for (const [label, value] of Object.entries(difference())) assert.ok(near(shown[label], value), `${label}: ${shown[label]}, should be ${value}`);
}

inBrowser("a second model is opened beside the first; a tensor minus its like", async (page, complaints) => {
  await openModel(page, server, "models/tuned.safetensors", { tensor: NAME });
  assert.ok(await page.getByRole("button", { name: "Difference" }).isDisabled(), "nothing to compare with yet");
  await page.getByRole("button", { name: "← Overview" }).click();
  await page.getByRole("button", { name: "Compare with…" }).click();
  await page.keyboard.type("models/base.zstn");
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  await page.locator(".beside").waitFor();
  await page.getByLabel("Search tensors").fill(NAME);
  await row(page, NAME).click();
  await page.getByRole("button", { name: "Difference" }).click();
  await checkDifference(page);
  assert.deepEqual(Object.fromEntries(new URL(page.url()).searchParams), { src: "models/tuned.safetensors", with: "models/base.zstn", tensor: NAME, mode: "difference", q: NAME });
  assert.deepEqual(complaints, []);
});

inBrowser("a link leads to a comparison; both sides move together", async (page, complaints) => {
  await goTo(page, server, { src: "models/tuned.safetensors", with: "models/base.zstn", tensor: NAME, mode: "side" });
  await page.locator(".statistics").nth(1).waitFor();
  const sides = page.locator(".side");
  assert.equal(await sides.count(), 2);
  await idle(page);
  await page.getByRole("img", { name: "Values of tuned.safetensors and of base.zstn, as densities" }).waitFor();
  assert.equal(await page.getByRole("img", { name: /^Histogram of the values/ }).count(), 0);
  await sides.first().getByRole("button", { name: "Zoom in" }).click();
  await page.waitForFunction(() => new Set([...document.querySelectorAll(".heatmap-box .caption")].map((caption) => caption.textContent)).size === 1 && /Rows 128/.test(document.querySelector(".heatmap-box .caption").textContent));
  // Both pictures settle on one scale, and nothing is rendered for a while.
  await page.evaluate(() => {
    globalThis.renderedMs = performance.now();
    const seen = new MutationObserver(() => (globalThis.renderedMs = performance.now()));
    for (const legend of document.querySelectorAll(".heatmap-box .legend")) seen.observe(legend, { childList: true });
  });
  await page.waitForFunction(() => performance.now() - globalThis.renderedMs > 700);
  const scales = await page.locator(".heatmap-box .legend .scale").allInnerTexts();
  assert.equal(scales.length, 2);
  assert.equal(scales[0], scales[1]);
  const { norm } = await figures(sides.nth(1));
  assert.ok(near(norm, Math.sqrt(valuesOf(base[NAME]).reduce((sum, value) => sum + value * value, 0))));
  // The choice applies to both pictures, regardless of the button that is pressed.
  const squares = page.getByRole("button", { name: "Square cells" });
  await squares.nth(1).click();
  assert.deepEqual(await squares.evaluateAll((all) => all.map((one) => one.getAttribute("aria-pressed"))), ["true", "true"]);
  assert.equal(new URL(page.url()).searchParams.get("cells"), "square");
  await page.getByRole("button", { name: "Single" }).click();
  await page.locator(".sides").waitFor({ state: "detached" });
  assert.deepEqual(complaints, []);
});

inBrowser("a delta is compared with the base it is opened with, which costs both once", async (page, complaints) => {
  await goTo(page, server, { src: "models/tuned.z4dm", with: "models/base.zstn", tensor: NAME, mode: "difference" });
  await checkDifference(page);
  const { fetched } = await counters(page);
  assert.ok(fetched < 1_000_000, `${fetched} bytes`);
  assert.match(await page.locator(".facts").innerText(), /stored as a delta from the base/);
  await page.getByText(/^[\d,]+ zeros \(98\.0 %\) not shown\./).waitFor();
  assert.equal(await page.getByLabel("zeros", { exact: true }).isChecked(), false);
  assert.deepEqual(complaints, []);
});

inBrowser("two tensors of one model; shapes that differ have no difference", async (page, complaints) => {
  await openModel(page, server, "models/base.zstn", { tensor: "transformer.h.0.attn.c_proj.weight" });
  const other = page.getByLabel("Tensor to compare with");
  await typeInto(other, "transformer.h.1.attn.c_proj.weight");
  await page.locator(".side").nth(1).waitFor();
  await page.getByRole("button", { name: "Difference" }).click();
  const [a, b] = [0, 1].map((block) => valuesOf(base[`transformer.h.${block}.attn.c_proj.weight`]));
  const { norm } = await figures(page);
  assert.ok(near(norm, Math.sqrt(a.reduce((sum, value, i) => sum + (value - b[i]) ** 2, 0))));

  await typeInto(page.getByLabel("Tensor to compare with"), "lm_head.weight");
  await page.getByRole("alert").filter({ hasText: "only tensors of the same shape can be subtracted" }).waitFor();
  await page.getByRole("button", { name: "Side by side" }).click();
  await page.locator(".statistics").nth(1).waitFor();
  await typeInto(page.getByLabel("Tensor to compare with"), "nothing");
  await page.getByRole("alert").filter({ hasText: "name another tensor of this model" }).waitFor();
  assert.deepEqual(complaints, []);
});

inBrowser("the second model goes when it is removed, and may be a local file", async (page, complaints) => {
  await openModel(page, server, "models/base.zstn", { with: "models/tuned.safetensors" });
  await page.locator(".beside").getByRole("button", { name: "Remove" }).click();
  await page.getByRole("button", { name: "Compare with…" }).waitFor();
  assert.equal(new URL(page.url()).searchParams.get("with"), null);
  await page.getByRole("button", { name: "Compare with…" }).click();
  await page.getByLabel("Choose files of a second model").setInputFiles(join(models, "mine.safetensors"));
  await page.locator(".beside").filter({ hasText: "mine.safetensors" }).waitFor();
  assert.deepEqual(complaints, []);
});

inBrowser("a second model that cannot be opened does not take the first away", async (page) => {
  await openModel(page, server, "models/base.zstn", { with: "models/nothing.zstn" });
  await page.getByRole("alert").filter({ hasText: /no file at .*nothing\.zstn/ }).waitFor();
  await page.getByRole("heading", { name: "base.zstn" }).waitFor();
});
