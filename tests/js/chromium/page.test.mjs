/** The demonstration page, served together with a model as `cargo xtask demo` does it. */

import assert from "node:assert/strict";
import { cpSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { MIDDLE_TENSOR, safetensors, writeLanguageModel } from "../support/checkpoint.mjs";
import { browserTests } from "../support/chromium.mjs";
import { pack, serve } from "../support/cli.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { vectorPath } from "../support/vectors.mjs";

const MANY = 10_000;
const site = scratchFolder();
let [server, tensors] = [];

const { inBrowser } = browserTests({
  ready: async () => {
    cpSync(fileURLToPath(new URL("../../../web-demo/dist", import.meta.url)), site, { recursive: true });
    const models = scratchFolder();
    tensors = await writeLanguageModel(join(models, "model.safetensors"));
    await pack(join(models, "model.safetensors"), join(site, "model.zstn"));
    const many = Array.from({ length: MANY }, (_, i) => [`layer.${i}.scale`, { dtype: "F32", shape: [2], bytes: new Uint8Array(8) }]);
    writeFileSync(join(site, "many.safetensors"), safetensors(Object.fromEntries(many)));
    server = await serve(site);
  },
  done: () => server?.stop(),
});

const row = (page, name) => page.locator(".rows .row").filter({ hasText: name });

async function openModel(page, src) {
  await page.goto(`${server.url}?src=${encodeURIComponent(src)}`);
  await page.locator(".rows .row").first().waitFor();
}

/** Figures shown in the panel, by label. */
async function shownFigures(page) {
  await page.locator(".statistic-list").waitFor();
  const pairs = await page.locator(".statistic-list > div").evaluateAll((rows) => rows.map((div) => [div.children[0].textContent, div.children[1].textContent]));
  return Object.fromEntries(pairs.map(([label, text]) => [label, Number(text.replace("−", "-"))]));
}

function truth({ bytes, dtype }) {
  const copy = Uint8Array.from(bytes).buffer;
  const values = dtype === "F32" ? new Float32Array(copy) : Float32Array.from(new Uint16Array(copy), (bits) => new Float32Array(Uint32Array.of(bits << 16).buffer)[0]);
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
  return { min: values.reduce((a, b) => Math.min(a, b)), max: values.reduce((a, b) => Math.max(a, b)), mean, "std. dev.": Math.sqrt(variance), values };
}

inBrowser("?src= opens a model, a click shows a tensor with its true figures", async (page, complaints) => {
  await openModel(page, "model.zstn");
  assert.match(await page.title(), /model\.zstn/);
  assert.equal(await page.locator(".grid").getAttribute("aria-rowcount"), String(Object.keys(tensors).length + 1));
  assert.match(await page.locator("#summary").innerText(), /42\.4 MB/, "size of the original");

  await page.getByLabel("Filter tensors").fill("h.3 attn 1536");
  await row(page, MIDDLE_TENSOR).click();
  const shown = await shownFigures(page);
  const { values, ...expected } = truth(tensors[MIDDLE_TENSOR]);
  for (const [label, value] of Object.entries(expected)) {
    assert.ok(Math.abs(shown[label] - value) <= 6e-4 * Math.abs(value), `${label}: ${shown[label]}, should be ${value}`);
  }
  const first = (await page.locator(".value-grid li").allInnerTexts()).map((text) => Number(text.replace("−", "-")));
  assert.equal(first.length, 64);
  first.forEach((value, i) => assert.ok(Math.abs(value - values[i]) <= 6e-3 * Math.abs(values[i]), `value ${i}: ${value}`));
  assert.match(await page.locator(".panel").innerText(), /Read in .* fetched .* in 1 request\./);
  assert.match(await page.locator(".figure.lit").innerText(), /Fetched so far\s+1\.\d+ MB/);
  assert.equal(await page.locator(".histogram").count(), 1);
  assert.deepEqual(complaints, []);
});

inBrowser("the keyboard alone will do", async (page, complaints) => {
  await openModel(page, "model.zstn");
  await page.keyboard.press("/");
  await page.keyboard.type("ln_1");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.locator(".panel h2").waitFor();
  assert.equal(await page.locator(".panel h2").innerText(), "transformer.h.1.ln_1.weight");
  assert.equal(await page.locator('.row[aria-selected="true"]').count(), 1);
  const shown = await shownFigures(page);
  const expected = truth(tensors["transformer.h.1.ln_1.weight"]);
  assert.ok(Math.abs(shown.max - expected.max) < 1e-3 * expected.max);
  await page.keyboard.press("Escape");
  assert.ok(await page.locator(".panel").isHidden());
  assert.deepEqual(complaints, []);
});

inBrowser("columns sort, three clicks give the order of the file back", async (page) => {
  await openModel(page, "model.zstn");
  const names = async () => (await page.locator(".rows .cell.name").allInnerTexts()).slice(0, 10);
  const fileOrder = await names();
  const size = page.getByRole("button", { name: "Size" });
  await size.click();
  assert.equal((await names())[0], "lm_head.weight");
  assert.equal(await page.getByRole("columnheader", { name: "Size" }).getAttribute("aria-sort"), "descending");
  await size.click();
  assert.match((await names())[0], /ln_/);
  await size.click();
  assert.deepEqual(await names(), fileOrder);
});

inBrowser("ten thousand tensors do not freeze the page", async (page, complaints) => {
  await openModel(page, "many.safetensors");
  assert.ok((await page.locator(".rows .row").count()) < 100, "only rows in view exist");
  const longestMs = await page.evaluate(async () => {
    let longest = 0;
    let last = performance.now();
    for (let y = 0; y <= 20; y++) {
      scrollTo(0, (document.documentElement.scrollHeight * y) / 20);
      await new Promise(requestAnimationFrame);
      longest = Math.max(longest, performance.now() - last);
      last = performance.now();
    }
    return longest;
  });
  assert.ok(longestMs < 1000, `a frame took ${longestMs} ms`);
  await row(page, `layer.${MANY - 1}.scale`).waitFor();
  await page.getByLabel("Filter tensors").fill("layer.1234.");
  await row(page, "layer.1234.scale").click();
  assert.deepEqual(await shownFigures(page), { min: 0, max: 0, mean: 0, "std. dev.": 0 });
  assert.deepEqual(complaints, []);
});

inBrowser("a file can be chosen or dropped, and every dtype shows something", async (page, complaints) => {
  await page.goto(server.url);
  await page.setInputFiles("#file", vectorPath("zstn", "all_dtypes.zstn"));
  await page.locator(".rows .row").first().waitFor();
  for (const name of await page.locator(".rows .cell.name").allInnerTexts()) {
    await row(page, name).filter({ has: page.getByText(name, { exact: true }) }).first().click();
    await page.locator(".value-grid li").first().waitFor();
    assert.equal(await page.locator(".panel h2").innerText(), name);
  }
  const dropped = await page.evaluateHandle(async () => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([await (await fetch("model.zstn")).blob()], "dropped.zstn"));
    return transfer;
  });
  await page.dispatchEvent("body", "dragenter", { dataTransfer: dropped });
  assert.ok(await page.locator("#drop-veil").isVisible());
  await page.dispatchEvent("body", "drop", { dataTransfer: dropped });
  await page.getByRole("heading", { name: "dropped.zstn" }).waitFor();
  assert.ok(await page.locator("#drop-veil").isHidden());
  assert.match(await page.locator(".count").innerText(), /^34 tensors$/);
  assert.deepEqual(complaints, []);
});

for (const [what, src, pattern] of [
  ["a file that is not there", "nothing.zstn", /There is no file at .*nothing\.zstn.*404/],
  ["a page instead of a model", "index.html", /web page \(HTML\)/],
]) {
  inBrowser(`${what}: a sentence, and the page goes on`, async (page, complaints) => {
    await page.goto(`${server.url}?src=${src}`);
    const alert = page.getByRole("alert");
    await alert.waitFor();
    assert.match(await alert.innerText(), pattern);
    await page.getByLabel("Address of a model file").fill("model.zstn");
    await page.keyboard.press("Enter");
    await page.locator(".rows .row").first().waitFor();
    assert.equal(await alert.count(), 0);
    assert.equal(new URL(page.url()).searchParams.get("src"), "model.zstn");
    // Chromium itself notes a failed request; anything else would be the page's fault.
    assert.deepEqual(complaints.filter((text) => !/status of 404/.test(text)), []);
  });
}

inBrowser(
  "on a phone nothing is wider than the screen",
  async (page) => {
    await openModel(page, "model.zstn");
    const overflow = () => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok((await overflow()) <= 0);
    await row(page, "lm_head.weight").click();
    await page.locator(".statistic-list").waitFor();
    assert.ok((await overflow()) <= 0);
  },
  { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true },
);
