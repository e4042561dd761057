/** The viewer answers its first two questions: what is this model, and is it healthy? */

import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { browserTests } from "../support/browser.mjs";
import { safetensors } from "../support/checkpoint.mjs";
import { pack } from "../support/cli.mjs";
import { ggufFile } from "../support/gguf.mjs";
import { damagedModel } from "../support/viewer-models.mjs";
import { counters, goTo, idle, openModel, serveViewer, viewerFolder } from "../support/viewer.mjs";

const folder = viewerFolder();
const models = join(folder, "models");
const REPOSITORY = "resolve/main";
let server;

const { inBrowser } = browserTests({
  ready: async () => {
    for (const [name, tensors] of Object.entries({ damaged: damagedModel(), healthy: damagedModel(true) })) {
      writeFileSync(join(models, `${name}.safetensors`), safetensors(tensors));
      await pack(join(models, `${name}.safetensors`), join(models, `${name}.zstn`));
    }
    mkdirSync(join(models, REPOSITORY), { recursive: true });
    writeFileSync(join(models, REPOSITORY, "model.safetensors"), safetensors(damagedModel(true)));
    writeFileSync(join(models, REPOSITORY, "config.json"), JSON.stringify({ architectures: ["PlantedModel"], hidden_size: 256, num_hidden_layers: 6, num_attention_heads: 8 }));
    const one = (name, ...shape) => ({ name, shape, bytes: new Uint8Array(4 * shape.reduce((a, b) => a * b, 1)) });
    const layer = (i) => [one(`blk.${i}.attn_q.weight`, 16, 16), one(`blk.${i}.attn_norm.weight`, 16)];
    const metadata = { "general.architecture": "llama", "llama.block_count": 2, "llama.embedding_length": 16, "llama.attention.head_count": 4 };
    writeFileSync(join(models, "small.gguf"), ggufFile(metadata, [one("token_embd.weight", 40, 16), ...layer(0), ...layer(1)]));
    writeFileSync(join(models, "metadata.safetensors"), safetensors({}, { only: "metadata" }));
    server = await serveViewer(folder);
  },
  done: () => server?.stop(),
});

const facts = (page) => page.locator(".fact").allInnerTexts();
const PARAMETERS = 300 * 256 + 6 * (512 * 256 + 256 * 256 + 256);
const KNOWN = [`1.26 M parameters ${PARAMETERS.toLocaleString("en-US")}`, "6 layers", "256 wide", "vocabulary 300"];

/** Returns the findings by problem: the tensors with their texts, without the places. */
const findings = (page) =>
  page.locator(".health section").evaluateAll((sections) => Object.fromEntries(sections.map((section) => [section.dataset.problem, [...section.querySelectorAll("li")].map((item) => [item.children[0].textContent.replace(/^model\.|\.weight$/g, ""), item.children[1].textContent])])));

const line = (page, problem, tensor) => page.locator(`.health section[data-problem="${problem}"] li`, { hasText: tensor });

inBrowser("what a model is: one line, from shapes alone and with the configuration in its repository", async (page, complaints) => {
  await openModel(page, server, "models/healthy.safetensors");
  assert.deepEqual(await facts(page), [...KNOWN, "BF16F32I64"]);
  await page.getByText("How this is known").click();
  assert.match(await page.locator(".sources").innerText(), /model\.layers\.0 to 5[^]*The rows of model\.embed_tokens\.weight[^]*Not counted: 8 values of 1 buffer/);
  await openModel(page, server, `models/${REPOSITORY}/model.safetensors`);
  await page.locator('[data-fact="heads"]').waitFor();
  const stated = await facts(page);
  assert.deepEqual([stated[0], stated.slice(1, 4), stated.includes("8 heads, 4 for keys and values")], ["PlantedModel", KNOWN.slice(0, 3), true]);
  await openModel(page, server, "models/small.gguf");
  assert.deepEqual((await facts(page)).slice(0, 6), ["llama", "1.18 k parameters 1,184", "2 layers", "16 wide", "4 heads", "vocabulary 40"]);
  assert.deepEqual(complaints, []);
});

inBrowser("a configuration at another address is read on request", async (page) => {
  await openModel(page, server, "models/healthy.safetensors");
  await idle(page);
  assert.equal(server.fetched("/models/config.json").requests, 0);
  await page.getByRole("button", { name: "Read config.json" }).click();
  await page.getByText("There is no config.json here.").waitFor();
  writeFileSync(join(models, "config.json"), JSON.stringify({ hidden_size: 256, num_hidden_layers: 6, num_attention_heads: 4 }));
  await page.reload();
  await page.getByRole("button", { name: "Read config.json" }).click();
  await page.locator('[data-fact="heads"]', { hasText: "4 heads" }).waitFor();
});

inBrowser("planted damage is found without reading a tensor, each with its place", async (page, complaints) => {
  await openModel(page, server, "models/damaged.zstn");
  await page.locator(".health li").first().waitFor();
  await idle(page);
  assert.deepEqual(await findings(page), {
    nan: [["layers.2.q", "256 NaN"]],
    infinite: [["layers.4.q", "1 infinite"]],
    zero: [["layers.0.k", "all 65,536 values are zero"]],
    dead: [["layers.3.q", "3.91 % zeros, enough for 20 rows"]],
    outlier: [["layers.1.q", "a magnitude of 50, 354 times the RMS"]],
    unlike: [["layers.1.q", "RMS 0.141, the median of 6 is 0.0288"], ["layers.5.k", "RMS 0.0861, the median of 5 is 0.0287"]],
  });
  assert.match(await page.locator(".health .verdict").innerText(), /^7 findings in 6 tensors\. 19 of 19 floating-point tensors have stored statistics\.$/);
  assert.equal(await page.getByRole("button", { name: "health: 7 findings" }).count(), 1);
  assert.ok((await counters(page)).fetched < 150_000, `${(await counters(page)).fetched} bytes`);
  const nan = line(page, "nan", "layers.2.q");
  await nan.getByRole("button", { name: "rows 256–511", exact: true }).waitFor();
  await line(page, "outlier", "layers.1.q").getByRole("button", { name: "rows 0–255", exact: true }).waitFor();
  await nan.getByRole("button", { name: /^Find the rows/ }).click();
  await nan.getByRole("button", { name: "row 300, column 0" }).waitFor();
  await line(page, "dead", "layers.3.q").getByRole("button", { name: /^Find the rows/ }).click();
  await line(page, "dead", "layers.3.q").getByText("20 rows: rows 260–279").waitFor();
  await line(page, "infinite", "layers.4.q").getByRole("button", { name: /^Find the rows/ }).click();
  await line(page, "infinite", "layers.4.q").getByRole("button", { name: "row 10, column 5" }).waitFor();
  const outlier = line(page, "outlier", "layers.1.q");
  await outlier.getByRole("button", { name: /^Find the cell/ }).click();
  await outlier.getByRole("button", { name: "row 40, column 7" }).click();
  await page.getByRole("heading", { name: "model.layers.1.q.weight" }).waitFor();
  const { searchParams } = new URL(page.url());
  assert.deepEqual([searchParams.get("at"), searchParams.get("pin")], ["28-53,0-256", "40,7"]);
  assert.deepEqual(complaints, []);
});

inBrowser("a healthy model: what was checked is stated; a plain one is checked on request", async (page, complaints) => {
  await openModel(page, server, "models/healthy.zstn");
  const verdict = page.locator(".health .verdict");
  await verdict.waitFor();
  assert.equal(await verdict.innerText(), "Nothing found. 19 of 19 floating-point tensors have stored statistics: no NaN, no infinite values, no tensor of zeros, no sign of rows of zeros, no outliers, no matrix with over twice or under half the median RMS of its module.");
  await openModel(page, server, "models/damaged.safetensors");
  assert.match(await page.locator(".health").innerText(), /This format has no stored statistics, so nothing has been checked\./);
  await page.getByRole("button", { name: "Check all values (reads 2.52 MB)" }).click();
  await page.locator(".health li").first().waitFor();
  const found = await findings(page);
  assert.deepEqual([found.nan, found.dead, found.outlier], [[["layers.2.q", "256 NaN"]], [["layers.3.q", "20 rows of zeros"]], [["layers.1.q", "a magnitude of 50, 354 times the RMS"]]]);
  assert.match(await verdict.innerText(), /19 of 19 floating-point tensors were read in full/);
  await page.getByRole("button", { name: "Layers", exact: true }).click();
  assert.equal(await page.getByLabel("Colour by").inputValue(), "rms", "the pictures use what was measured");
  assert.deepEqual(complaints, []);
});

inBrowser("layers by RMS are the first picture where statistics exist; a file without tensors has none", async (page, complaints) => {
  await openModel(page, server, "models/damaged.zstn");
  await page.locator(".cell-grid").waitFor();
  assert.equal(await page.getByLabel("Colour by").inputValue(), "rms");
  assert.equal(await page.getByRole("button", { name: "Layers", exact: true }).getAttribute("aria-pressed"), "true");
  assert.equal(new URL(page.url()).searchParams.get("picture"), null);
  await openModel(page, server, "models/damaged.safetensors");
  await page.locator(".treemap").waitFor();
  assert.doesNotMatch(await page.locator(".tree").innerText(), /1\.00×/);
  await goTo(page, server, { src: "models/metadata.safetensors" });
  await page.locator(".metadata").waitFor();
  assert.deepEqual([await page.locator(".treemap").count(), await page.locator(".health").count()], [0, 0]);
  assert.deepEqual(complaints, []);
});

for (const [width, colorScheme] of [[320, "dark"], [390, "light"], [1440, "light"]]) {
  inBrowser(`nothing is cut off ${width} pixels wide`, async (page) => {
    await goTo(page, server, { src: "models/damaged.zstn" });
    await page.locator(".health li").first().waitFor();
    await idle(page);
    const cut = await page.evaluate(() => [...document.querySelectorAll(".fact, .findings li > *, .figure dd, .scroll td")].filter((node) => node.getBoundingClientRect().right > Math.min(innerWidth, node.closest(".scroll")?.getBoundingClientRect().right ?? innerWidth) + 0.5).map((node) => node.textContent));
    assert.deepEqual(cut, []);
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)) <= 0);
  }, { viewport: { width, height: 900 }, colorScheme });
}
