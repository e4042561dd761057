/** The viewer: the tensor search, keyboard shortcuts, links to the whole view, and the list on phones. */

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pack } from "zstn";
import { browserTests, onlyChromium } from "../support/browser.mjs";
import { safetensors } from "../support/checkpoint.mjs";
import { manyTensors } from "../support/viewer-models.mjs";
import { counters, goTo, idle, openModel, row, serveViewer, viewerFolder } from "../support/viewer.mjs";

const folder = viewerFolder();
const models = join(folder, "models");
let [server, status] = [];
/** Resolves when the worker that searches for regular expressions may be loaded. */
let searching;

const { inBrowser } = browserTests({
  tier: "all",
  ready: async () => {
    writeFileSync(join(models, "deep.safetensors"), manyTensors(40));
    const longName = `base_model.model.${"deeply_nested.".repeat(6)}layers.17.mlp.up_proj.weight`;
    writeFileSync(join(models, "long.safetensors"), safetensors({ [longName]: { dtype: "U8", shape: [4], bytes: new Uint8Array(4) } }));
    writeFileSync(join(models, "many.safetensors"), manyTensors(10_000));
    writeFileSync(join(models, "model.bin"), Buffer.concat([Buffer.from([1, 2, 3, 4, 5, 6, 7, 8]), Buffer.alloc(4000, 7)]));
    const values = (value) => ({ dtype: "F32", shape: [64, 64], bytes: new Uint8Array(Float32Array.from({ length: 4096 }, (_, i) => value * (i % 2 ? 1 : -1)).buffer) });
    const levels = safetensors(Object.fromEntries([1, 2, 4, 8].flatMap((level, layer) => [[`layers.${layer}.up.weight`, values(level)], [`layers.${layer}.norm.weight`, { ...values(1), shape: [4096] }]])));
    const { blob } = await pack(new Uint8Array(levels));
    writeFileSync(join(models, "levels.zstn"), new Uint8Array(await blob.arrayBuffer()));
    server = await serveViewer(folder, (_request, path) => (path.startsWith("/models/guarded") ? status : path.includes("expression-worker") ? searching : undefined));
  },
  done: () => server?.stop(),
});

const search = (page) => page.getByLabel("Search tensors");
const names = (page) => page.locator(".tree .label.tensor").evaluateAll((all) => all.map((label) => label.title));
const parameters = (page) => Object.fromEntries(new URL(page.url()).searchParams);

inBrowser("words, wildcards, regular expressions, and numbers that are whole", async (page, complaints) => {
  await openModel(page, server, "models/deep.safetensors", { order: "name" });
  for (const [text, expected] of [
    ["layers.3", 10],
    ["layers.3 attn", 4],
    ["layers.3?.attn.q", 10],
    ["*.attn.*", 160],
    ["/layers\\.(3|33)\\.mlp\\.(up|down)/", 4],
    ["LAYERS.39.mlp.up.weight", 1],
  ]) {
    await search(page).fill(text);
    await page.locator(".count").filter({ hasText: new RegExp(`^${expected} of 400 tensors$`) }).waitFor();
  }
  await search(page).fill("/(/");
  await page.getByText("This is not a regular expression.").waitFor();
  await search(page).fill("layers.3.mlp.uq.weight");
  await page.locator(".nothing").getByRole("button", { name: "model.layers.3.mlp.up.weight" }).click();
  await page.getByRole("heading", { name: "model.layers.3.mlp.up.weight" }).waitFor();
  assert.deepEqual(complaints, []);
});

inBrowser("keys pressed while a regular expression is searched for apply to its result", async (page, complaints) => {
  const press = async (...keys) => {
    for (const key of keys) await page.keyboard.press(key);
  };
  /** Searches for an expression, and finds nothing before `meanwhile` is done. */
  const whileSearching = async (text, meanwhile) => {
    let found;
    searching = new Promise((resolve) => (found = resolve));
    await search(page).fill(text);
    await page.locator(".count").filter({ hasText: "Searching…" }).waitFor();
    await meanwhile();
    found();
  };
  const shown = (name) => page.getByRole("heading", { name }).waitFor();
  await openModel(page, server, "models/deep.safetensors", { order: "name" });
  await whileSearching("/^model.layers.7.mlp/", () => press("ArrowDown", "ArrowDown", "Enter"));
  await shown("model.layers.7.mlp.gate.weight");
  await whileSearching("/layers.31.attn.k/", () => press("Enter"));
  await shown("model.layers.31.attn.k.weight");
  // A search that the user gives up does not hold back the keys.
  await whileSearching("/layers.2/", async () => {
    await search(page).fill("layers.5.attn");
    await press("ArrowDown", "Enter");
    await shown("model.layers.5.attn.k.weight");
  });
  assert.deepEqual(complaints, []);
});

/**
 * Counts the objects and strings in each message that the page gets from a worker, in `window.messageObjects`, and lists the
 * page's calls in `window.workerCalls`.
 */
function observeMessages() {
  window.messageObjects = [];
  window.workerCalls = [];
  const { postMessage } = Worker.prototype;
  Worker.prototype.postMessage = function (message, ...rest) {
    window.workerCalls.push(message.call);
    postMessage.call(this, message, ...rest);
  };
  const size = (value) => (typeof value === "string" ? 1 : typeof value !== "object" || value === null || ArrayBuffer.isView(value) ? 0 : [...(value instanceof Map ? value.values() : Object.values(value))].reduce((sum, part) => sum + size(part), 1));
  const { set, get } = Object.getOwnPropertyDescriptor(Worker.prototype, "onmessage");
  const counting = (handle) => (event) => {
    window.messageObjects.push(size(event.data));
    handle(event);
  };
  Object.defineProperty(Worker.prototype, "onmessage", { get, set: function (handle) { set.call(this, counting(handle)); } });
}

inBrowser("100,000 tensors: messages and the page have a bounded number of objects, modules are loaded when they are opened", async (page, complaints) => {
  await page.addInitScript(observeMessages);
  await openModel(page, server, "models/many.safetensors");
  const count = (text) => page.locator(".count").filter({ hasText: text }).waitFor();
  await count(/^100,000 tensors$/);
  const layers = page.locator('.tree .row[aria-level="2"][aria-setsize="10000"]');
  assert.match(await layers.first().innerText(), /10 tensors/);
  const calls = (await page.evaluate(() => window.workerCalls)).filter((call) => ["list", "facts", "layers"].includes(call));
  assert.equal(calls[0], "list", "the worker, which answers one call after the other, gets the list first");
  const inLayers = page.locator('.tree .row[aria-level="3"]');
  assert.equal(await inLayers.count(), 0, "the first rows appear before the modules below them are loaded");
  await page.locator("#stage canvas").first().waitFor();
  await layers.first().click();
  await inLayers.first().waitFor();
  await search(page).fill("layers.3? mlp.up");
  await count(/^1,111 of 100,000 tensors$/);
  await search(page).fill("/layers\\.\\d*77\\.scale/");
  await count(/^100 of 100,000 tensors$/);
  await search(page).fill("layers.9999.mlp.uq.weight");
  await page.locator(".nothing").getByRole("button", { name: "model.layers.9999.mlp.up.weight" }).click();
  await page.getByRole("heading", { name: "model.layers.9999.mlp.up.weight" }).waitFor();
  await search(page).fill("");
  await count(/^100,000 tensors$/);
  await page.locator("#stage h1").focus();
  await page.keyboard.press("n");
  await page.getByRole("heading", { name: "model.layers.9999.mlp.gate.weight" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Layers" }).click();
  await page.locator(".cell").first().waitFor();
  await page.getByText(/more layers? in the list/).waitFor();
  const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
  assert.ok(nodes < 8000, `${nodes} elements`);
  assert.ok((await page.locator(".tree .row").count()) < 80, "only rows in view exist");
  const objects = await page.evaluate(() => Math.max(...window.messageObjects));
  assert.ok(objects < 5000, `${objects} objects in a message`);
  assert.deepEqual(complaints, []);
});

inBrowser("an expression that would never end is given up, also in a link, and the page goes on", async (page, complaints) => {
  await goTo(page, server, { src: "models/deep.safetensors", q: "/([\\w.]+)+!/" });
  await page.getByText("This expression takes too long.").waitFor();
  await search(page).fill("/layers\\.3\\./");
  await page.locator(".count").filter({ hasText: /^10 of 400 tensors$/ }).waitFor();
  await search(page).fill(`${"*".repeat(40)}zz`);
  await page.getByText("No tensor matches.").waitFor();
  assert.deepEqual(complaints, []);
});

inBrowser("Enter opens the first match; n and p go on from there; ? lists the keys", async (page, complaints) => {
  await openModel(page, server, "models/deep.safetensors");
  await page.keyboard.press("/");
  await page.keyboard.type("layers.3 mlp");
  await page.keyboard.press("Enter");
  const heading = (name) => page.getByRole("heading", { name, exact: true }).waitFor();
  await heading("model.layers.3.mlp.up.weight");
  await page.locator("#stage h1").focus();
  await page.keyboard.press("n");
  await heading("model.layers.3.mlp.gate.weight");
  await page.keyboard.press("p");
  await heading("model.layers.3.mlp.up.weight");
  await search(page).focus();
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Enter");
  await heading("model.layers.3.mlp.down.weight");
  await page.locator("#stage h1").focus();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog", { name: "Keys" }).waitFor({ state: "hidden" });
  await heading("model.layers.3.mlp.down.weight");
  assert.deepEqual(complaints, []);
});

inBrowser("the link holds search, filter, order, picture and colours, and opens them again", async (page, complaints) => {
  await openModel(page, server, "models/deep.safetensors");
  await search(page).fill("attn");
  await page.getByLabel("Type", { exact: true }).selectOption("BF16");
  await page.getByLabel("Order", { exact: true }).selectOption("largest");
  await page.getByRole("button", { name: "Treemap" }).click();
  await page.getByLabel("Size", { exact: true }).selectOption("original");
  await page.getByLabel("Colour by").selectOption("bits");
  const asked = { src: "models/deep.safetensors", picture: "treemap", colour: "bits", area: "original", q: "attn", dtype: "BF16", order: "largest" };
  assert.deepEqual(parameters(page), asked);
  // The list draws a few rows below its window, and how many depends on when it is measured.
  const firstNames = async () => (await names(page)).slice(0, 20);
  const shown = await firstNames();
  assert.equal(shown.length, 20);
  await page.goto("about:blank");
  await goTo(page, server, asked);
  await page.locator(".tree .row").first().waitFor();
  assert.deepEqual(await firstNames(), shown);
  assert.equal(await search(page).inputValue(), "attn");
  assert.equal(await page.getByLabel("Colour by").inputValue(), "bits");
  assert.equal(await page.getByLabel("Size", { exact: true }).inputValue(), "original");
  await page.locator(".tree .row").first().click();
  await page.locator(".statistics").waitFor();
  assert.equal(parameters(page).q, "attn", "the search stays with a tensor");
  await page.goBack();
  await page.locator(".treemap").waitFor();
  assert.deepEqual(parameters(page), asked);
  await search(page).fill("mlp");
  await page.getByRole("button", { name: "Layers" }).click();
  assert.equal(parameters(page).q, "mlp", "what was typed last");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Layers", "the focus stays");
  await goTo(page, server, { ...asked, picture: "nonsense", order: "nonsense", colour: "nonsense" });
  await page.locator(".treemap").waitFor();
  assert.deepEqual(complaints, [], "what a link cannot mean is ignored");
});

inBrowser("a link to a tensor shows its row with some around it, also in a lower window", async (page, complaints) => {
  await openModel(page, server, "models/deep.safetensors", { tensor: "model.layers.20.attn.q.weight", order: "name" });
  const rowsAround = () =>
    page.locator('.row[aria-selected="true"]').evaluate((row) => {
      const [own, list] = [row.getBoundingClientRect(), row.closest(".tree").getBoundingClientRect()];
      return Math.min(own.top - list.top, list.bottom - own.bottom) / own.height;
    });
  await page.locator('.row[aria-selected="true"]').waitFor();
  assert.ok((await rowsAround()) >= 2.9, String(await rowsAround()));
  const { width, height } = page.viewportSize();
  const before = await page.locator(".tree").evaluate((node) => node.clientHeight);
  await page.setViewportSize({ width, height: height - 250 });
  await page.waitForFunction((before) => document.querySelector(".tree").clientHeight < before, before);
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  assert.ok((await rowsAround()) >= 2.9, String(await rowsAround()));
  assert.deepEqual(complaints, []);
});

inBrowser(
  "the link is copied, and a message says so",
  async (page) => {
    await openModel(page, server, "models/deep.safetensors", { picture: "layers" });
    await page.getByRole("button", { name: "Copy link" }).click();
    await page.locator(".toast", { hasText: "Link copied" }).waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), page.url());
    await openModel(page, server, "models/deep.safetensors?signature=1");
    await page.getByRole("button", { name: "Copy link" }).click();
    await page.locator(".toast", { hasText: "This link contains the query of the address." }).waitFor();
    await goTo(page, server, { src: `${server.url.replace("//", "//name:secret@")}models/deep.safetensors` });
    await page.locator(".tree .row").first().waitFor();
    await page.getByRole("button", { name: "Layers" }).click();
    assert.equal(parameters(page).src, `${server.url}models/deep.safetensors`, "links have no passwords");
  },
  { permissions: ["clipboard-read", "clipboard-write"], skip: onlyChromium("reading the clipboard needs a permission that only Chromium gives to tests") },
);

inBrowser("a long name keeps its end; rows are compact, and taller on request", async (page, complaints) => {
  await openModel(page, server, "models/long.safetensors", { order: "name" });
  const height = () => page.locator(".tree .row").first().evaluate((node) => node.getBoundingClientRect().height);
  assert.equal(await height(), 24);
  const label = page.locator(".tree .label.tensor").first();
  const { tail, head, whole } = await label.evaluate((node) => {
    const [head, tail] = node.children;
    return { whole: node.title, tail: tail.scrollWidth <= tail.clientWidth, head: head.scrollWidth > head.clientWidth };
  });
  assert.match(whole, /^base_model.*up_proj\.weight$/);
  assert.ok(tail && head, "the beginning is cut, not the end");
  await page.getByRole("button", { name: "Taller rows" }).click();
  assert.equal(await height(), 46);
  await page.reload();
  await page.locator(".tree .row").first().waitFor();
  assert.equal(await height(), 46, "the choice is kept");
  const width = () => page.locator("#sidebar").evaluate((node) => node.clientWidth);
  const before = await width();
  await page.getByRole("separator", { name: "Width of the list" }).focus();
  await page.keyboard.press("ArrowRight");
  assert.ok((await width()) > before);
  assert.deepEqual(complaints, []);
});

inBrowser("statistics of the packer colour the layers without a byte of tensors", async (page, complaints) => {
  await openModel(page, server, "models/levels.zstn", { picture: "layers" });
  const colours = page.getByLabel("Colour by");
  if (!(await colours.locator("option").allTextContents()).includes("RMS")) await colours.locator("option", { hasText: "RMS" }).waitFor({ state: "attached" });
  await idle(page);
  const before = await counters(page);
  for (const key of ["rms", "std", "max"]) {
    await colours.selectOption(key);
    for (const [layer, level] of [1, 2, 4, 8].entries()) {
      const value = Number(await page.locator(`.cell[aria-label^="layers.${layer}.up.weight:"]`).getAttribute("data-value"));
      assert.ok(Math.abs(value - level) < 0.01 * level, `${key} of layer ${layer}: ${value}`);
    }
  }
  await idle(page);
  assert.equal((await counters(page)).fetched, before.fetched);
  assert.deepEqual(complaints, []);
});

inBrowser("what is no model is said once, in the words of the page, with details folded away", async (page) => {
  await goTo(page, server, { src: "models/model.bin" });
  const alert = page.getByRole("alert");
  await alert.waitFor();
  assert.match(await alert.innerText(), /^Not a model file this page can read\./);
  assert.ok(!/first bytes|over the cap|option/.test(await alert.innerText()), await alert.innerText());
  await alert.getByText("Details").click();
  assert.match(await alert.innerText(), /first bytes|over the cap/);
  status = 503;
  await goTo(page, server, { src: "models/guarded.zstn" });
  await alert.filter({ hasText: /has a problem \(status 503\)/ }).waitFor();
});

inBrowser("the welcome page reads the index and one tensor of the sample, and says what that took", async (page, complaints) => {
  await page.goto(server.url);
  const caption = page.locator("#demonstration figcaption");
  await caption.filter({ hasText: /^2 requests · .* kB of 1\.\d+ MB list all 32 tensors/ }).waitFor();
  await caption.filter({ hasText: /^3 requests · .*: only the tensor you open is downloaded/ }).waitFor();
  const { requests, bytes } = server.fetched("/sample.zstn");
  assert.equal(requests, 3, "it is what the server saw");
  assert.match(await caption.innerText(), new RegExp(`${(bytes / 1e3).toFixed(0)} kB`));
  assert.equal(await page.locator(".chips button").count(), 3);
  await page.getByRole("button", { name: "About" }).click();
  assert.match(await page.getByRole("dialog", { name: "About" }).innerText(), /zstn \d+\.\d+\.\d+/);
  assert.deepEqual(complaints, []);
});

inBrowser("a local file that a reload loses is named", async (page, complaints) => {
  await page.goto(server.url);
  await page.getByLabel("Choose files of a model").setInputFiles(join(models, "deep.safetensors"));
  await row(page, "layers").first().waitFor();
  await search(page).fill("layers.7.scale");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "model.layers.7.scale.weight" }).waitFor();
  await page.reload();
  await page.getByText("deep.safetensors is not stored by this page; drop it again.").waitFor();
  assert.deepEqual(complaints, []);
});

inBrowser(
  "on a phone the model and the list have the screen in turn",
  async (page, complaints) => {
    await openModelOnPhone(page);
    assert.ok(await page.locator("#stage").isVisible());
    assert.ok(await page.locator("#sidebar").isHidden());
    await page.getByRole("button", { name: "Tensors" }).click();
    assert.ok(await page.locator("#stage").isHidden());
    await search(page).fill("layers.7.scale");
    await row(page, "scale.weight").click();
    await page.getByRole("heading", { name: "model.layers.7.scale.weight" }).waitFor();
    await idle(page);
    const bar = await page.locator("#wire").boundingBox();
    assert.ok(bar.height < 48, `the network bar takes one line: ${bar.height} px`);
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)) <= 0);
    assert.deepEqual(complaints, []);
  },
  { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true },
);

async function openModelOnPhone(page) {
  await goTo(page, server, { src: "models/deep.safetensors" });
  await page.locator("#stage h1").waitFor();
}
