/** The viewer: the changes between two models, compared with known differences. */

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { browserTests } from "../support/browser.mjs";
import { safetensors, writeLanguageModel } from "../support/checkpoint.mjs";
import { pack } from "../support/cli.mjs";
import { counters, goTo, idle, near, serveViewer, valuesOf, viewerFolder } from "../support/viewer.mjs";

const folder = viewerFolder();
const models = join(folder, "models");
/** The tensors of the large fine-tune that differ, with the factor between the two. */
const SCALED = { "transformer.h.2.mlp.c_fc.weight": 1.5, "transformer.h.4.attn.c_attn.weight": 1.03125 };
let [server, hold] = [];
const large = {};

const f32 = (shape, value) => {
  const count = shape.reduce((a, b) => a * b, 1);
  return { dtype: "F32", shape, bytes: new Uint8Array(Float32Array.from({ length: count }, (_, i) => value(i)).buffer) };
};

/** A model of four layers. The fine-tune changes layer 2 strongly, one value of layer 3, and nothing else. */
function small(tuned) {
  const tensors = { "embed.weight": f32([40, 8], (i) => 1 + i / 100), "head.weight": f32([40, 8], (i) => 1 + i / 100) };
  for (let layer = 0; layer < 4; layer++) {
    const strong = tuned && layer === 2 ? 3 : 1;
    tensors[`layers.${layer}.attn.q.weight`] = f32([8, 8], (i) => (layer + 1 + i) * strong);
    tensors[`layers.${layer}.mlp.up.weight`] = f32([16, 8], (i) => (tuned && layer === 3 && i === 5 ? 100 : i + 1));
    tensors[`layers.${layer}.norm.weight`] = f32([8], () => 1);
  }
  tensors[tuned ? "adapter.weight" : "pooler.weight"] = f32([4], () => 1);
  // Its squares are a million times the squares of the weights.
  tensors["positions"] = { dtype: "I64", shape: [400], bytes: new Uint8Array(BigInt64Array.from({ length: 400 }, (_, i) => BigInt(1000 * i + (tuned ? 1 : 0))).buffer) };
  tensors["classes.weight"] = f32(tuned ? [3, 8] : [2, 8], () => 1);
  return tensors;
}

/** Returns the relative change and the fraction of changed values over the tensors in `names`. */
function truth(tuned, base, names) {
  let [squares, baseSquares, changed, count] = [0, 0, 0, 0];
  for (const name of names) {
    const b = floats(base[name]);
    const a = tuned[name] === base[name] ? b : floats(tuned[name]);
    for (let i = 0; i < a.length; i++) {
      squares += (a[i] - b[i]) ** 2;
      baseSquares += b[i] ** 2;
      changed += a[i] === b[i] ? 0 : 1;
    }
    count += a.length;
  }
  return { relative: Math.sqrt(squares / baseSquares), changed: changed / count };
}

function scaled(tensor, factor) {
  const values = floats(tensor);
  for (let i = 0; i < values.length; i++) values[i] *= factor;
  const bits = new Uint32Array(values.buffer);
  const halves = new Uint16Array(bits.length);
  for (let i = 0; i < bits.length; i++) halves[i] = bits[i] >>> 16;
  return { ...tensor, bytes: new Uint8Array(halves.buffer) };
}

/** Returns the values of a BF16 or F32 tensor, fast enough for 40 MB. */
function floats(tensor) {
  if (tensor.dtype !== "BF16") return valuesOf(tensor);
  const halves = new Uint16Array(Uint8Array.from(tensor.bytes).buffer);
  const bits = new Uint32Array(halves.length);
  for (let i = 0; i < bits.length; i++) bits[i] = halves[i] << 16;
  return new Float32Array(bits.buffer);
}

const { inBrowser } = browserTests({
  tier: "all",
  ready: async () => {
    writeFileSync(join(models, "small.safetensors"), safetensors(small(false)));
    writeFileSync(join(models, "small-tuned.safetensors"), safetensors(small(true)));
    large.base = await writeLanguageModel(join(models, "large.safetensors"));
    large.tuned = { ...large.base };
    for (const [name, factor] of Object.entries(SCALED)) large.tuned[name] = scaled(large.base[name], factor);
    writeFileSync(join(models, "large-tuned.safetensors"), safetensors(large.tuned, { format: "pt" }));
    await pack(join(models, "large-tuned.safetensors"), join(models, "large-tuned.z4dm"), { base: join(models, "large.safetensors") });
    server = await serveViewer(folder, () => hold);
  },
  done: () => server?.stop(),
});

const figures = (page) => page.locator(".changes .figure").evaluateAll((all) => Object.fromEntries(all.map((entry) => [entry.children[0].textContent, [entry.children[1].textContent, Number(entry.querySelector("data")?.value ?? Number.NaN), entry.children[2].textContent]])));
const cell = (page, name) => page.locator(`.cell[aria-label^="${name}:"]`);
const ranks = (page) => page.locator(".ranks li").evaluateAll((rows) => rows.map((line) => [line.querySelector("button").textContent, Number(line.querySelector("data").value), line.querySelector("data").textContent]));

async function settled(page) {
  await page.locator(".progress-line", { hasText: /All values compared|compared by digest|Estimated from a sample of rows/ }).waitFor();
  await idle(page);
}

inBrowser("two small models are compared whole: figures, matrix and list are the truth", async (page, complaints) => {
  await goTo(page, server, { src: "models/small-tuned.safetensors", with: "models/small.safetensors" });
  await settled(page);
  await page.getByRole("button", { name: "Biases and norms" }).click();
  const [tuned, base] = [small(true), small(false)];
  const shared = Object.keys(base).filter((name) => name in tuned && name !== "classes.weight");
  const shown = await figures(page);
  assert.equal(shown["Tensors changed"][0], `3 of ${shared.length}`);
  assert.match(shown["Tensors changed"][2], /1 not comparable/);
  assert.equal(shown["Only in A"][0], "1");
  assert.equal(shown["Only in B"][0], "1");
  const weights = shared.filter((name) => name !== "positions");
  const all = truth(tuned, base, weights);
  assert.ok(near(shown["Relative change"][1], all.relative), `${shown["Relative change"][1]}, should be ${all.relative}`);
  assert.ok(near(shown["Weights changed"][1], all.changed), `${shown["Weights changed"][1]}, should be ${all.changed}`);
  assert.ok(!/≈/.test(shown["Weights changed"][0] + shown["Relative change"][0]), "exact figures are not called estimates");
  assert.match(await page.locator(".progress-line").innerText(), /1 integer tensor not counted \(1 changed\)\./);
  for (const name of weights) {
    const value = Number(await cell(page, name).getAttribute("data-value"));
    assert.ok(near(value, truth(tuned, base, [name]).relative), `${name}: ${value}`);
  }
  const list = await ranks(page);
  assert.deepEqual(list.map(([name]) => name), ["layers.2.attn.q.weight", "layers.3.mlp.up.weight", "positions"]);
  assert.ok(near(list[0][1], 2));
  assert.match(await page.locator(".card", { hasText: "Only in small-tuned.safetensors" }).innerText(), /adapter\.weight/);
  assert.match(await page.locator(".card", { hasText: "Only in small.safetensors" }).innerText(), /pooler\.weight/);

  await cell(page, "layers.2.attn.q.weight").hover();
  await page.locator(".caption", { hasText: /layers\.2\.attn\.q\.weight 200 % relative change, 100 % of values changed/ }).waitFor();
  await cell(page, "layers.2.attn.q.weight").click();
  await page.getByRole("heading", { name: "layers.2.attn.q.weight" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Difference" }).getAttribute("aria-pressed"), "true", "what changed is what is shown");
  assert.deepEqual(complaints, []);
});

inBrowser("colours and views of a comparison are in the link", async (page, complaints) => {
  await goTo(page, server, { src: "models/small-tuned.safetensors", with: "models/small.safetensors" });
  await settled(page);
  await page.getByLabel("Colour by").selectOption("changed");
  assert.equal(new URL(page.url()).searchParams.get("colour"), "changed");
  assert.ok(near(Number(await cell(page, "layers.3.mlp.up.weight").getAttribute("data-value")), 1 / 128));
  await page.getByRole("button", { name: "Treemap" }).click();
  await page.locator(".treemap").waitFor();
  await page.getByLabel("Colour by").selectOption("change");
  await page.locator(".picture-legend", { hasText: /Relative change[^]*200 %/ }).waitFor();
  await page.goBack();
  await page.goBack();
  await page.locator(".ranks li").first().waitFor();
  assert.equal(await page.getByLabel("Colour by").inputValue(), "changed");
  const link = page.url();
  await page.goto("about:blank");
  await page.goto(link);
  await settled(page);
  assert.equal(await page.getByLabel("Colour by").inputValue(), "changed");
  assert.deepEqual(complaints, []);
});

inBrowser("a link to a treemap coloured by change compares the models", async (page, complaints) => {
  await goTo(page, server, { src: "models/small-tuned.safetensors", with: "models/small.safetensors", picture: "treemap", colour: "change" });
  await page.locator(".picture-legend", { hasText: /Relative change[^]*200 %/ }).waitFor();
  assert.equal(await page.getByLabel("Colour by").inputValue(), "change");
  assert.deepEqual(complaints, []);
});

inBrowser("large models are compared by a sample that says so; all values are compared on request", async (page, complaints) => {
  await goTo(page, server, { src: "models/large-tuned.safetensors", with: "models/large.safetensors" });
  await settled(page);
  const sampled = await figures(page);
  const [, shown, margin] = /^≈ ([\d.]+) % ± ([\d.]+) %$/.exec(sampled["Relative change"][0]);
  const whole = 100 * truth(large.tuned, large.base, Object.keys(large.base)).relative;
  assert.ok(Math.abs(shown - whole) <= Number(margin) + 0.05, `${shown} ± ${margin}, should be ${whole}`);
  assert.equal(sampled["Tensors changed"][0], `≥ 2 of ${Object.keys(large.base).length}`, "a sample proves changes, and nothing else");
  assert.match(sampled["Weights changed"][2], /from .* % of the floating-point values/);
  assert.ok((await counters(page)).fetched < 24.2e6, "24 MB, and what opening both takes");
  const list = await ranks(page);
  assert.deepEqual(list.map(([name]) => name), Object.keys(SCALED));
  for (const [name, value, text] of list) {
    const { relative } = truth(large.tuned, large.base, [name]);
    assert.ok(near(value, relative, 0.05), `${name}: ${value}, should be about ${relative}`);
    assert.match(text, /^≈ .* ± /);
  }
  const unchanged = cell(page, "transformer.h.0.attn.c_attn.weight");
  assert.match(await unchanged.getAttribute("aria-label"), /no change in a sample/, "a sample does not prove that nothing changed");

  const [, announced] = /\(([\d.]+) MB\)/.exec(await page.getByRole("button", { name: /^Compare all values/ }).innerText());
  const before = (await counters(page)).fetched;
  await page.getByRole("button", { name: /^Compare all values/ }).click();
  await page.locator(".progress-line", { hasText: "All values compared" }).waitFor();
  const cost = ((await counters(page)).fetched - before) / 1e6;
  assert.ok(Math.abs(cost - announced) < 0.02 * announced, `${cost} MB were read, ${announced} announced: the sample is not read again`);
  const exact = await figures(page);
  const names = Object.keys(large.base);
  const all = truth(large.tuned, large.base, names);
  assert.ok(near(exact["Relative change"][1], all.relative, 1e-4), `${exact["Relative change"][1]}, should be ${all.relative}`);
  assert.ok(near(exact["Weights changed"][1], all.changed, 1e-4), `${exact["Weights changed"][1]}, should be ${all.changed}`);
  assert.match(await unchanged.getAttribute("aria-label"), /: unchanged$/);
  assert.deepEqual(complaints, []);
});

inBrowser("comparing can be cancelled and continued", async (page, complaints) => {
  let release;
  await goTo(page, server, { src: "models/large-tuned.safetensors", with: "models/large.safetensors", picture: "treemap" });
  await page.locator(".treemap").waitFor();
  await idle(page);
  hold = new Promise((resolve) => (release = resolve));
  await page.getByRole("button", { name: "What changed" }).click();
  await page.getByRole("button", { name: "Cancel comparing" }).click();
  await page.locator(".progress-line", { hasText: "Cancelled." }).waitFor();
  release();
  hold = undefined;
  await page.getByRole("button", { name: "Continue" }).click();
  await settled(page);
  assert.deepEqual((await ranks(page)).map(([name]) => name), Object.keys(SCALED));
  assert.deepEqual(complaints, []);
});

inBrowser("a delta is not compared with a model that is not its base", async (page) => {
  const other = readFileSync(join(models, "large.safetensors"));
  const data = 8 + Number(other.readBigUInt64LE(0));
  for (let at = data; at < other.length; at++) other[at] ^= 1;
  writeFileSync(join(models, "other.safetensors"), other);
  await goTo(page, server, { src: "models/large-tuned.z4dm", with: "models/other.safetensors" });
  // The statements of the delta are not believed.
  await page.getByText("34 tensors have not been compared in full").first().waitFor();
});

inBrowser("a delta names what changed, and only that is read", async (page, complaints) => {
  await goTo(page, server, { src: "models/large-tuned.z4dm", with: "models/large.safetensors" });
  await settled(page);
  const shown = await figures(page);
  assert.equal(shown["Tensors changed"][0], `2 of ${Object.keys(large.base).length}`);
  const { changed } = truth(large.tuned, large.base, Object.keys(large.base));
  assert.ok(near(shown["Weights changed"][1], changed, 1e-4), `${shown["Weights changed"][1]}, should be ${changed}`);
  // The base is plain, so the norms of its other tensors are unknown.
  const { relative } = truth(large.tuned, large.base, Object.keys(SCALED));
  assert.ok(near(shown["Relative change"][1], relative, 1e-4), `${shown["Relative change"][1]}, should be ${relative}`);
  assert.match(shown["Relative change"][2], /of the changed tensors/);
  const { fetched } = await counters(page);
  assert.ok(fetched < 12e6, `${fetched} bytes`);
  await page.getByLabel("Colour by").selectOption("stored");
  assert.match(await page.locator(".picture-legend").innerText(), /Stored change/);
  assert.deepEqual((await ranks(page)).map(([name]) => name).sort(), Object.keys(SCALED).sort());
  assert.deepEqual(complaints, []);
});
