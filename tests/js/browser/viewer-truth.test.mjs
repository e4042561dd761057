/**
 * The viewer makes no false claims about two packed models: digests determine which tensors changed, and NaN never
 * counts as "no change".
 */

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { browserTests } from "../support/browser.mjs";
import { safetensors } from "../support/checkpoint.mjs";
import { pack } from "../support/cli.mjs";
import { counters, figures, goTo, idle, near, openTensor, serveViewer, viewerFolder } from "../support/viewer.mjs";

const folder = viewerFolder();
const models = join(folder, "models");
const LAYERS = 4;
let server;

/** Returns a generator of values that do not compress well. */
function noise(seed) {
  let state = seed + 1;
  return () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32 - 0.5;
}

const f32 = (shape, values) => ({ dtype: "F32", shape, bytes: new Uint8Array(values.buffer) });
const name = (layer, kind) => `layers.${layer}.${kind}.weight`;

function model() {
  const tensors = {};
  for (let layer = 0; layer < LAYERS; layer++) {
    for (const [i, kind] of ["q", "v"].entries()) tensors[name(layer, kind)] = Float32Array.from({ length: 128 * 128 }, noise(8 * layer + i));
  }
  return tensors;
}

const checkpoint = (tensors) => safetensors(Object.fromEntries(Object.entries(tensors).map(([name, values]) => [name, f32([128, 128], values)])));

const base = model();
const tuned = model();
tuned[name(1, "v")] = tuned[name(1, "v")].map((value) => value * 1.5);
tuned[name(3, "q")][4095] += 0.25;
const sick = model();
sick[name(2, "q")].fill(Number.NaN, 640, 704);
sick[name(2, "q")][5] = Number.POSITIVE_INFINITY;
// These values differ only in the sign of a zero, so the bytes change but the values compare as equal.
sick[name(0, "v")][7] = base[name(0, "v")][7] = 0;
tuned[name(0, "v")][7] = 0;
sick[name(0, "v")][7] = -0;

const { inBrowser } = browserTests({
  ready: async () => {
    for (const [file, tensors] of Object.entries({ base, tuned, sick })) {
      writeFileSync(join(models, `${file}.safetensors`), checkpoint(tensors));
      await pack(join(models, `${file}.safetensors`), join(models, `${file}.zstn`));
    }
    writeFileSync(join(models, "odd.safetensors"), safetensors({ wide: { dtype: "F64", shape: [3], bytes: new Uint8Array(Float64Array.of(1e-310, 1e300, -0).buffer) }, nan: { dtype: "F32", shape: [4, 4], bytes: new Uint8Array(new Float32Array(16).fill(Number.NaN).buffer) }, four: { dtype: "F4", shape: [2, 2], bytes: Uint8Array.of(0x75, 0xf2) } }));
    server = await serveViewer(folder);
  },
  done: () => server?.stop(),
});

const cell = (page, name) => page.locator(`.cell[aria-label^="${name}:"]`);
const shown = (page) => page.locator(".changes .figure").evaluateAll((all) => Object.fromEntries(all.map((entry) => [entry.children[0].textContent, [entry.children[1].textContent, Number(entry.querySelector("data")?.value ?? Number.NaN)]])));

async function compared(page, src) {
  await goTo(page, server, { src: `models/${src}.zstn`, with: "models/base.zstn" });
  await page.locator(".progress-line", { hasText: /\d+ of 8 tensors compared by digest, \d+ in full/ }).waitFor();
  await idle(page);
}

inBrowser("digests name what changed, and nothing else is read", async (page, complaints) => {
  await compared(page, "tuned");
  const found = await shown(page);
  assert.equal(found["Tensors changed"][0], "2 of 8");
  let [squares, baseSquares] = [0, 0];
  for (const [name, values] of Object.entries(base)) for (const [i, value] of values.entries()) [squares, baseSquares] = [squares + (tuned[name][i] - value) ** 2, baseSquares + value ** 2];
  assert.ok(near(found["Relative change"][1], Math.sqrt(squares / baseSquares), 1e-4), String(found["Relative change"]));
  assert.ok(near(found["Weights changed"][1], 16385 / (8 * 16384), 1e-9), String(found["Weights changed"]));
  const { fetched } = await counters(page);
  assert.ok(fetched < 400_000, `${fetched} bytes: a quarter of the tensors of both`);
  await compared(page, "base");
  assert.equal((await shown(page))["Tensors changed"][0], "0 of 8");
  assert.match(await page.locator(".ranking").innerText(), /No tensor changed, by the digests in the files\./);
  assert.deepEqual(complaints, []);
});

inBrowser("a tensor that gained NaN comes first, with a pattern and in words; so do the pictures of one model", async (page, complaints) => {
  await compared(page, "sick");
  assert.equal((await shown(page))["Tensors changed"][0], "2 of 8", "other bytes of an equal value count as well");
  const first = page.locator(".ranks li").first();
  assert.match(await first.innerText(), /layers\.2\.q\.weight[^]*65 NaN or ∞, 0 in the other model/);
  const marked = cell(page, name(2, "q"));
  assert.match(await marked.getAttribute("class"), /non-finite/);
  assert.match(await marked.getAttribute("aria-label"), /65 NaN or ∞/);
  assert.doesNotMatch(await page.locator(".ranking").innerText(), /No tensor changed/);
  assert.match(await cell(page, name(0, "q")).getAttribute("aria-label"), /: unchanged$/);

  await goTo(page, server, { src: "models/sick.zstn", picture: "layers", colour: "max" });
  await cell(page, name(2, "q")).and(page.locator(".non-finite")).waitFor();
  assert.match(await cell(page, name(2, "q")).getAttribute("aria-label"), /max \|w\| .*64 NaN, 1 ∞/);
  assert.match(await page.locator(".layer-matrix .odd").innerText(), /NaN or ∞: layers\.2\.q\.weight/);
  assert.deepEqual(complaints, []);
});

inBrowser("figures are of values: of 64-bit floats, of packed ones, and of none", async (page, complaints) => {
  await openTensor(page, server, "models/odd.safetensors", "wide");
  const wide = await figures(page);
  assert.ok(near(wide.norm, 1e300) && near(wide["std. dev."], (Math.sqrt(2) / 3) * 1e300), JSON.stringify(wide));
  await openTensor(page, server, "models/odd.safetensors", "four");
  const four = await figures(page);
  assert.deepEqual([four.min, four.max, four.mean], [-6, 6, 1]);
  await openTensor(page, server, "models/odd.safetensors", "nan");
  await idle(page);
  const nan = await figures(page);
  assert.ok(Number.isNaN(nan.norm), JSON.stringify(nan));
  assert.doesNotMatch(await page.locator(".plot-card").innerText(), /RMS to/);
  assert.deepEqual(complaints, []);
});

for (const width of [1440, 390]) {
  inBrowser(`no figure is cut off ${width} pixels wide`, async (page, complaints) => {
    await goTo(page, server, { src: "models/sick.zstn" });
    await page.locator(".figures").waitFor();
    await idle(page);
    const cut = await page.evaluate(() => [...document.querySelectorAll(".scroll td")].filter((cell) => cell.getBoundingClientRect().right > cell.closest(".scroll").getBoundingClientRect().right + 0.5).map((cell) => cell.textContent));
    assert.deepEqual(cut, []);
    assert.deepEqual(complaints, []);
  }, { viewport: { width, height: 900 } });
}
