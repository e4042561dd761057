/** The viewer: looking at one tensor. */

import assert from "node:assert/strict";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { MIDDLE_TENSOR, safetensors, writeLanguageModel } from "../support/checkpoint.mjs";
import { browserTests, onlyChromium } from "../support/browser.mjs";
import { pack } from "../support/cli.mjs";
import { readSafetensors } from "../support/safetensors-reader.mjs";
import { LARGE, largeValue, quantisedModel, writeLarge } from "../support/viewer-models.mjs";
import { counters, figures, goTo, idle, near, openModel, openTensor, saved, serveViewer, truth, typeInto, valuesOf, viewerFolder } from "../support/viewer.mjs";
import { vectorPath } from "../support/vectors.mjs";

const folder = viewerFolder();
const models = join(folder, "models");
let [server, tensors, hold] = [];

/** A tensor of four axes, whose values show the indices of their slice. */
const EXPERTS = { dtype: "F32", shape: [4, 3, 48, 64], bytes: new Uint8Array(Float32Array.from({ length: 12 * 48 * 64 }, (_, i) => Math.floor(i / 9216) * 10 + (Math.floor(i / 3072) % 3) + (i % 3072) / 8192).buffer) };
const SLICE_BYTES = 48 * 64 * 4;
/** A tensor of three axes, whose values are the digits of their indices. */
const CUBE = { dtype: "F32", shape: [4, 5, 6], bytes: new Uint8Array(Float32Array.from({ length: 120 }, (_, i) => Math.floor(i / 30) * 100 + (Math.floor(i / 6) % 5) * 10 + (i % 6)).buffer) };

const { inBrowser } = browserTests({
  ready: async () => {
    tensors = await writeLanguageModel(join(models, "model.safetensors"));
    await pack(join(models, "model.safetensors"), join(models, "model.zstn"));
    await writeLarge(join(models, "large.safetensors"));
    await pack(join(models, "large.safetensors"), join(models, "large.zstn"));
    writeFileSync(join(models, "bits.safetensors"), quantisedModel());
    writeFileSync(join(models, "experts.safetensors"), safetensors({ experts: EXPERTS, cube: CUBE }));
    server = await serveViewer(folder, (_request, path) => (path.startsWith("/models/") ? hold : undefined));
  },
  done: () => server?.stop(),
});

const opened = async (page, src, tensor) => {
  await openTensor(page, server, src, tensor);
  await idle(page);
};
const heatmapState = (page) => page.locator(".heatmap-box .caption").first();

inBrowser("figures are the true ones, and the tensor costs its own bytes in one request", async (page, complaints) => {
  await openModel(page, server, "models/model.zstn");
  const before = await counters(page);
  await page.getByLabel("Search tensors").fill("h.3 c_attn");
  await page.getByRole("treeitem").last().click();
  const shown = await figures(page);
  for (const [label, value] of Object.entries(truth(tensors[MIDDLE_TENSOR]))) assert.ok(near(shown[label], value), `${label}: ${shown[label]}, should be ${value}`);
  const after = await counters(page);
  assert.equal(after.requests - before.requests, 1);
  const [, storedText] = /stored in ([\d.]+) MB/.exec(await page.locator(".facts").innerText());
  assert.ok(near(after.fetched - before.fetched, Number(storedText) * 1e6, 0.01), `${after.fetched - before.fetched} bytes for ${storedText} MB`);
  assert.deepEqual(complaints, []);
});

inBrowser("exponents: their entropy stands beside the bits that are achieved", async (page) => {
  await opened(page, "models/model.zstn", MIDDLE_TENSOR);
  const bits = await page.locator(".bits > div").evaluateAll((all) => all.map((div) => [div.children[0].textContent, Number(div.querySelector("data").value)]));
  const counts = new Map();
  const words = new Uint16Array(Uint8Array.from(tensors[MIDDLE_TENSOR].bytes).buffer);
  for (const word of words) counts.set((word >> 7) & 255, (counts.get((word >> 7) & 255) ?? 0) + 1);
  const entropy = [...counts.values()].reduce((sum, count) => sum - (count / words.length) * Math.log2(count / words.length), 0);
  assert.ok(near(bits[0][1], entropy), `${bits[0][1]}, should be ${entropy}`);
  assert.equal(bits[1][1], 8);
  const stored = bits.at(-1)[1];
  assert.ok(stored > entropy + 7 && stored < 16, `${stored} bits per weight`);
  for (const label of ["Histogram of the values", "Histogram of magnitudes", "Histogram of the stored exponents", "RMS by row", "RMS by column"]) {
    assert.equal(await page.getByRole("img", { name: new RegExp(label) }).count(), 1, label);
  }
  await page.locator(".chart-card").first().getByLabel("log").check();
  await page.locator(".chart-card").first().locator("canvas").waitFor();
});

inBrowser("values in a table, from where a person says", async (page, complaints) => {
  await opened(page, "models/model.zstn", MIDDLE_TENSOR);
  const all = valuesOf(tensors[MIDDLE_TENSOR]);
  const cells = () => page.locator("table.values tbody td").allInnerTexts();
  const close = (text, value) => Math.abs(Number(text.replace("−", "-")) - value) <= 6e-3 * Math.abs(value);
  assert.ok(close((await cells())[0], all[0]));
  await typeInto(page.getByLabel("Row", { exact: true }), "300");
  await typeInto(page.getByLabel("Column", { exact: true }), "1000");
  await page.locator("table.values th", { hasText: /^1,000$/ }).waitFor();
  assert.ok(close((await cells())[0], all[300 * 1536 + 1000]));
  await page.getByRole("button", { name: "Next rows" }).click();
  await page.locator("table.values th", { hasText: /^312$/ }).waitFor();
  assert.ok(close((await cells())[0], all[312 * 1536 + 1000]));
  await page.locator(".heatmap").click({ position: { x: 1, y: 1 } });
  await page.locator("table.values tbody th", { hasText: /^1$/ }).waitFor();
  assert.deepEqual(complaints, []);
});

inBrowser("a large tensor: a sample first, then the rows in view and no others", async (page, complaints) => {
  await opened(page, "models/large.safetensors", LARGE.name);
  const rows = Number(await page.locator("[data-sampled]").getAttribute("value"));
  assert.ok(rows > 200 && rows < LARGE.rows / 5, `${rows} rows`);
  const sampled = await counters(page);
  assert.ok(sampled.fetched < 4e6, `${sampled.fetched} bytes for a sample of 46 MB`);
  assert.match(await heatmapState(page).innerText(), /sampled/);

  await openTensor(page, server, "models/large.safetensors", LARGE.name, { at: "14766-15234,378-390" });
  await page.locator('.caption[data-complete="true"]').waitFor();
  await idle(page);
  const sharp = await counters(page);
  const view = /Rows ([\d,]+)–([\d,]+)/.exec(await heatmapState(page).innerText()).slice(1).map((text) => Number(text.replaceAll(",", "")));
  const viewBytes = (view[1] - view[0] + 1) * LARGE.columns * 2;
  const cost = sharp.fetched - sampled.fetched;
  assert.ok(cost >= viewBytes * 0.9 && cost < viewBytes + 3e6, `${cost} bytes for a view of ${viewBytes}`);
  assert.ok(sharp.fetched < 0.2 * 46e6);

  await page.locator(".heatmap").focus();
  await page.keyboard.press("Enter");
  const middle = Math.floor((view[0] + view[1] + 1) / 2);
  await page.waitForFunction(() => document.querySelector("table.values tbody th")?.textContent !== "0");
  const first = Number((await page.locator("table.values tbody th").first().innerText()).replaceAll(",", ""));
  assert.ok(Math.abs(first - middle) <= 2, `row ${first}, the middle is ${middle}`);
  const column = Number((await page.locator("table.values thead th").first().innerText()).replaceAll(",", ""));
  const value = Number((await page.locator("table.values tbody td").first().innerText()).replace("−", "-"));
  assert.ok(Math.abs(value - largeValue(first, column)) < 6e-3, `${value} at ${first}, ${column}`);
  assert.deepEqual(complaints, []);
}, { skip: onlyChromium("in Firefox each click takes so long that the rows of the steps between are read as well") });

inBrowser("the heatmap of 30 000 × 768 follows the pointer at every move, before any rows are fetched for it", async (page, complaints) => {
  await opened(page, "models/large.safetensors", LARGE.name);
  for (let i = 0; i < 6; i++) await page.getByRole("button", { name: "Zoom in" }).click();
  await idle(page);
  await page.locator(".heatmap").scrollIntoViewIfNeeded();
  const box = await page.locator(".heatmap").boundingBox();
  // Drawing uses data in memory, so the server receives no request.
  let release;
  hold = new Promise((resolve) => (release = resolve));
  const drawn = () => page.evaluate(async () => {
    await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
    return document.querySelector(".heatmap").toDataURL();
  });
  const firstRow = async () => Number(/Rows ([\d,]+)–/.exec(await heatmapState(page).innerText())[1].replaceAll(",", ""));
  const before = await firstRow();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height * 0.7);
  await page.mouse.down();
  const pictures = [await drawn()];
  for (let i = 1; i <= 12; i++) {
    await page.mouse.move(box.x + box.width / 2 + 10 * Math.sin(i), box.y + box.height * 0.7 - i * 8);
    pictures.push(await drawn());
  }
  await page.mouse.up();
  assert.equal(new Set(pictures).size, pictures.length, "every move shows");
  release();
  hold = undefined;
  await page.locator('.caption[data-complete="true"]').waitFor();
  assert.ok((await firstRow()) > before, "it has moved up");
  assert.deepEqual(complaints, []);
});

inBrowser("all of a large tensor is read when asked for, with progress, and can be cancelled", async (page, complaints) => {
  await opened(page, "models/large.zstn", LARGE.name);
  const sample = await counters(page);
  assert.ok(sample.fetched < 0.45 * statSync(join(models, "large.zstn")).size, `${sample.fetched} bytes for a sample of the packed tensor`);
  let release;
  hold = new Promise((resolve) => (release = resolve));
  await page.getByRole("button", { name: /^Load all/ }).click();
  await page.getByRole("progressbar").first().waitFor();
  await page.getByRole("button", { name: /^Cancel: All of/ }).click();
  await page.getByRole("alert").filter({ hasText: "Cancelled." }).waitFor();
  release();
  hold = undefined;
  await page.getByRole("button", { name: "Retry" }).click();
  await page.waitForFunction(() => !document.querySelector("[data-sampled]") && !document.querySelector(".sampled .error"));
  await idle(page);
  const shown = await figures(page);
  const sums = [0, 0];
  for (let row = 0; row < LARGE.rows; row++) {
    for (let column = 0; column < LARGE.columns; column++) {
      const value = largeValue(row, column);
      sums[0] += value;
      sums[1] += value * value;
    }
  }
  assert.ok(near(shown.mean, sums[0] / (LARGE.rows * LARGE.columns)), String(shown.mean));
  assert.ok(near(shown.norm, Math.sqrt(sums[1])), String(shown.norm));
  await page.locator('.caption[data-complete="true"]').waitFor();
  assert.deepEqual(complaints, []);
});

inBrowser("a tensor is saved as .npy, .bin and .safetensors, and copied as code", async (page) => {
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  const name = "transformer.h.1.ln_1.weight";
  await opened(page, "models/model.zstn", name);
  const save = (format) => saved(page, () => page.getByRole("button", { name: `Download as .${format}` }).click());
  const { bytes } = tensors[name];
  assert.ok((await save("bin")).bytes.equals(Buffer.from(bytes)));
  const npy = await save("npy");
  assert.equal(npy.name, `${name}.npy`);
  const headBytes = 10 + npy.bytes.readUInt16LE(8);
  assert.equal(headBytes % 64, 0);
  assert.match(npy.bytes.subarray(10, headBytes).toString(), /^\{'descr': '<f4', 'fortran_order': False, 'shape': \(512,\), \} *\n$/);
  assert.ok(npy.bytes.subarray(headBytes).equals(Buffer.from(bytes)));
  const read = await readSafetensors(new Blob([(await save("safetensors")).bytes]));
  assert.deepEqual(read.names, [name]);
  assert.ok(Buffer.from(await read.bytesOf(name)).equals(Buffer.from(bytes)));

  const copied = async (language) => {
    await page.getByLabel("Language").selectOption(language);
    await page.getByRole("button", { name: /^Cop(y|ied)$/ }).click();
    return page.evaluate(() => navigator.clipboard.readText());
  };
  assert.match(await copied("javascript"), new RegExp(`open\\("${server.url}models/model.zstn"\\)[^]*model\\.tensor\\("${name}"\\)`));
  assert.equal(await copied("shell"), `zstn get ${server.url}models/model.zstn ${name} -o ${name}.npy`);
  assert.match(await copied("python"), /subprocess\.run\(\["zstn","get",[^]*numpy\.load/);
});

inBrowser("a bfloat16 is widened for NumPy", async (page) => {
  await opened(page, "models/model.zstn", "transformer.h.0.attn.c_proj.weight");
  const { bytes } = await saved(page, () => page.getByRole("button", { name: "Download as .npy" }).click());
  const data = bytes.subarray(10 + bytes.readUInt16LE(8));
  const values = new Float32Array(Uint8Array.from(data).buffer);
  assert.deepEqual(values, valuesOf(tensors["transformer.h.0.attn.c_proj.weight"]));
});

inBrowser("every dtype shows something", async (page, complaints) => {
  await page.goto(server.url);
  await page.getByLabel("Choose files of a model").setInputFiles({ name: "all.zstn", mimeType: "", buffer: readFileSync(vectorPath("zstn", "all_dtypes.zstn")) });
  await page.getByLabel("Order", { exact: true }).selectOption("file");
  // The list of all tensors replaces the one with the group `t`.
  await page.locator("#row-0 .label").filter({ hasText: "t." }).waitFor();
  const names = await page.locator(".tree .label").allInnerTexts();
  assert.ok(names.length >= 20, `${names.length} tensors`);
  for (const [i, name] of names.entries()) {
    await page.locator(`#row-${i}`).click();
    await page.getByRole("heading", { name, exact: true }).waitFor();
    await page.locator("table.values td:not(.beyond), .panel > .notice").nth(1).waitFor({ state: "attached" });
  }
  assert.deepEqual(complaints, []);
});

inBrowser("is it really int4: the verdict names bits and group size, with the values that were checked", async (page, complaints) => {
  const shown = async (name, route) => {
    await openTensor(page, server, "models/bits.safetensors", name, route);
    const card = page.locator(".levels");
    await card.waitFor();
    const title = await card.locator(".verdict").innerText();
    assert.equal(await page.locator(".verdict").first().innerText(), title, "also below the figures");
    return [title, await card.innerText()];
  };
  const [real, evidence] = await shown("real.weight");
  assert.equal(real, "Consistent with 4-bit quantisation, group size 32");
  assert.match(evidence, /Each of 4,096 groups of 32 values along rows has 16 levels at most, which are multiples of one step; the steps differ/);
  assert.match(evidence, /per 32 neighbours\s+\d+, up to 1\d/);
  assert.equal((await shown("fake.weight"))[0], "Consistent with 8-bit quantisation, one scale per row: not 4-bit");
  const [plain, reason] = await shown("plain.weight");
  assert.match(plain, /^No grid found: [\d,]+ distinct values in the 131,072 that were read$/);
  assert.match(reason, /Up to 3\d distinct values in 32 neighbours, and a 4-bit code has 16 values\./);
  // The card states on how many rows its verdict is based.
  await openTensor(page, server, "models/large.safetensors", LARGE.name);
  await page.locator(".levels").waitFor();
  assert.match(await page.locator(".levels").innerText(), /Compared with grids: [\d,]+ values in \d+ rows/);
  assert.deepEqual(complaints, []);
});

inBrowser("elements with scales in another tensor are shown decoded, and on request as they are stored", async (page, complaints) => {
  await openTensor(page, server, "models/bits.safetensors", "experts.down_proj_blocks");
  await page.locator(".notice.scales").filter({ hasText: "MXFP4: each 32 values share a scale in experts.down_proj_scales. The values below are decoded." }).waitFor();
  await page.locator(".levels").waitFor();
  const decoded = await figures(page);
  assert.deepEqual([decoded.min, decoded.max], [-24, 24], "6 times the largest scale");
  assert.equal(await page.locator(".levels .verdict").innerText(), "Stored as MXFP4: 4.25 bits per value, with scales");
  assert.match(await page.locator(".levels").innerText(), /values of a 4-bit float times one scale/);
  await page.getByRole("button", { name: "Show stored elements" }).click();
  await page.locator(".notice.scales").filter({ hasText: "without the scales" }).waitFor();
  assert.ok((await figures(page)).max > 200);
  assert.equal(new URL(page.url()).searchParams.get("values"), "stored");
  await page.reload();
  await page.getByRole("button", { name: "Show decoded values" }).click();
  await page.locator(".notice.scales").filter({ hasText: "The values below are decoded" }).waitFor();
  assert.equal((await figures(page)).max, 24);
  assert.equal(new URL(page.url()).searchParams.get("values"), null);
  assert.deepEqual(complaints, []);
});

inBrowser("what cannot be read says so, and can be tried again", async (page) => {
  await openModel(page, server, "models/model.zstn");
  hold = 503;
  await page.getByLabel("Search tensors").fill("h.3 c_fc");
  await page.getByRole("treeitem").last().click();
  await page.getByRole("button", { name: /^Cancel: transformer\.h\.3/ }).waitFor();
  hold = 404;
  const alert = page.getByRole("alert");
  await alert.waitFor();
  hold = undefined;
  await alert.getByRole("button", { name: "Retry" }).click();
  assert.ok((await figures(page)).max > 0);
  assert.equal(await alert.count(), 0);
});

inBrowser("a name that the model does not have: a sentence, and the overview", async (page, complaints) => {
  await goTo(page, server, { src: "models/model.zstn", tensor: "nothing.weight" });
  await page.getByRole("alert").filter({ hasText: "no tensor named nothing.weight" }).waitFor();
  await page.getByRole("heading", { name: "model.zstn" }).waitFor();
  assert.deepEqual(complaints, []);
});

inBrowser("sliders choose the slice of a tensor of four axes, which is in the link and the only part that is read", async (page, complaints) => {
  const sliceOf = (first, end) => ({ dtype: "F32", bytes: EXPERTS.bytes.subarray(first * SLICE_BYTES, end * SLICE_BYTES) });
  const check = async (slice, facts) => {
    const shown = await figures(page);
    for (const [label, value] of Object.entries(truth(slice))) assert.ok(near(shown[label], value), `${label}: ${shown[label]}, should be ${value}`);
    assert.match(await page.locator(".slice").innerText(), facts);
  };
  await opened(page, "models/experts.safetensors", "experts");
  await check(EXPERTS, /all of 4[^]*all of 3/);
  await page.getByLabel("Index of axis 0").fill("2");
  await idle(page);
  await check(sliceOf(6, 9), /2 of 4[^]*all of 3/);
  assert.equal(new URL(page.url()).searchParams.get("slice"), "2,*");
  server.forget();
  await openTensor(page, server, "models/experts.safetensors", "experts", { slice: "2,1" });
  await idle(page);
  await check(sliceOf(7, 8), /2 of 4[^]*1 of 3/);
  const { bytes } = server.fetched("/models/experts.safetensors");
  assert.ok(bytes >= 32_768 && bytes <= 32_768 + SLICE_BYTES, `${bytes} bytes for the head and one slice`);
  await page.getByLabel("Index of axis 1").fill("-1");
  await idle(page);
  await check(sliceOf(6, 9), /2 of 4[^]*all of 3/);
  assert.deepEqual(complaints, []);
});

inBrowser("any two axes are the rows and columns, chosen by keyboard, in the link, and only their slice is read", async (page, complaints) => {
  const table = () => page.locator("table.values tbody tr").evaluateAll((rows) => rows.map((row) => [...row.querySelectorAll("td")].map((cell) => Number(cell.textContent))));
  const shows = async (rows, columns, value) => {
    await idle(page);
    assert.deepEqual(await table(), Array.from({ length: rows }, (_, row) => Array.from({ length: columns }, (_, column) => value(row, column))));
  };
  const slice = () => new URL(page.url()).searchParams.get("slice");
  await opened(page, "models/experts.safetensors", "cube");
  await page.getByLabel("Rows", { exact: true }).selectOption("axis 2 (6)");
  assert.equal(slice(), "0,c,r", "the axis that was the columns changes places with the rows");
  await shows(6, 5, (row, column) => column * 10 + row);
  await page.getByLabel("Columns", { exact: true }).focus();
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Tab");
  assert.equal(slice(), "c,0,r");
  await page.getByLabel("Index of axis 1").focus();
  for (let i = 0; i < 3; i++) await page.keyboard.press("ArrowRight");
  assert.equal(slice(), "c,3,r");
  await shows(6, 4, (row, column) => column * 100 + 30 + row);
  assert.equal(await page.getByLabel("Heatmap of cube[columns, 3, rows]").count(), 1);
  await page.getByLabel("Rows", { exact: true }).selectOption("as stored");
  assert.equal(slice(), null);

  server.forget();
  await openTensor(page, server, "models/experts.safetensors", "experts", { slice: "2,1,c,r" });
  await idle(page);
  const own = EXPERTS.bytes.subarray(7 * SLICE_BYTES, 8 * SLICE_BYTES);
  const shown = await figures(page);
  for (const [label, value] of Object.entries(truth({ dtype: "F32", bytes: own }))) assert.ok(near(shown[label], value), `${label}: ${shown[label]}, should be ${value}`);
  const { bytes } = server.fetched("/models/experts.safetensors");
  assert.ok(bytes >= 32_768 && bytes <= 32_768 + SLICE_BYTES, `${bytes} bytes for the head and one slice`);
  for (const wrong of ["r,c", "2,1,r,r", "2,*,c,r", "9,1,c,r", "r,c,x,1"]) {
    await openTensor(page, server, "models/experts.safetensors", "experts", { slice: wrong });
    assert.equal(await page.getByLabel("Rows", { exact: true }).inputValue(), "", wrong);
  }
  assert.deepEqual(complaints, []);
});
