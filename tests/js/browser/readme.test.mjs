/**
 * Builds the tour's code for pages with Vite in a new project and runs it in Chromium. The only replacement is the
 * address, which becomes the address of a local server.
 */

import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "vite";
import { open } from "zstn";
import { browserTests } from "../support/browser.mjs";
import { serve } from "../support/cli.mjs";
import { installTarball } from "../support/packed.mjs";
import { WEIGHTS, block, writeModels } from "../support/readme.mjs";
import { scratchFolder } from "../support/scratch.mjs";

const scratch = scratchFolder();
const [models, project] = [join(scratch, "models"), join(scratch, "project")];
const servers = {};

const READ = "document.body.dataset.read = JSON.stringify({ data: [...tensor.data], requests: model.stats.requests, tuned: (await tuned.tensor('wte.weight')).data[17] });";
const html = (body) => `<!doctype html><title>README</title><link rel="icon" href="data:,"><body>${body}`;

const { inBrowser } = browserTests({
  ready: async () => {
    mkdirSync(models);
    mkdirSync(join(project, "src"), { recursive: true });
    await writeModels(models);
    servers.models = await serve(models);
    await installTarball(project);
    const read = block("docs/tour.md", "js", "await open(").replaceAll("https://example.org/", servers.models.url);
    writeFileSync(join(project, "src/read.js"), `${read}\n${READ}\n`);
    writeFileSync(join(project, "src/pack.js"), block("docs/tour.md", "js", "await pack("));
    writeFileSync(join(project, "index.html"), html('<script type="module" src="/src/read.js"></script>'));
    // The block packs the file that was chosen before the block runs.
    writeFileSync(join(project, "pack.html"), html('<input type="file"><script type="module">document.querySelector("input").onchange = () => import("/src/pack.js");</script>'));
    const rolldownOptions = { input: { index: join(project, "index.html"), pack: join(project, "pack.html") } };
    await build({ root: project, configFile: false, logLevel: "warn", build: { rolldownOptions } });
    copyFileSync(join(models, "tuned.z4dm"), join(project, "dist/tuned.z4dm"));
    servers.page = await serve(join(project, "dist"));
  },
  done: () => Promise.all(Object.values(servers).map((server) => server.stop())),
});

inBrowser("reading", async (page, complaints) => {
  await page.goto(`${servers.page.url}index.html`);
  await page.waitForSelector("body[data-read]", { state: "attached" });
  const read = JSON.parse(await page.evaluate(() => document.body.dataset.read));
  assert.deepEqual(read, { data: [...WEIGHTS], requests: read.requests, tuned: WEIGHTS[17] ^ 3 });
  assert.ok(read.requests <= 3);
  assert.deepEqual(complaints, []);
});

inBrowser("packing", async (page, complaints) => {
  await page.goto(`${servers.page.url}pack.html`);
  const said = page.waitForEvent("console", (message) => message.text().endsWith(" bytes"));
  const download = page.waitForEvent("download");
  await page.setInputFiles("input", join(models, "model.safetensors"));
  const packed = readFileSync(await (await download).path());
  const original = readFileSync(join(models, "model.safetensors"));
  assert.equal((await said).text(), `${original.length} → ${packed.length} bytes`);
  const model = await open(new Uint8Array(packed));
  assert.ok(original.equals(await model.asSafetensorsBlob().bytes()));
  assert.deepEqual(complaints, []);
});
