/** The viewer: packing a file in the page. */

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { MIDDLE_TENSOR, safetensors, writeLanguageModel } from "../support/checkpoint.mjs";
import { browserTests } from "../support/browser.mjs";
import { unpack } from "../support/cli.mjs";
import { ggufFile } from "../support/gguf.mjs";
import { goTo, row, saved, serveViewer, viewerFolder } from "../support/viewer.mjs";

const folder = viewerFolder();
const models = join(folder, "models");
const PLAIN = join(models, "model.safetensors");
const TUNED = join(models, "tuned.safetensors");
const OTHER = join(models, "other.safetensors");
let server;

const { inBrowser } = browserTests({
  ready: async () => {
    const tensors = await writeLanguageModel(PLAIN);
    const bytes = tensors[MIDDLE_TENSOR].bytes.map((byte, i) => (i % 100 === 0 ? byte ^ 1 : byte));
    writeFileSync(TUNED, safetensors({ ...tensors, [MIDDLE_TENSOR]: { ...tensors[MIDDLE_TENSOR], bytes } }));
    writeFileSync(OTHER, safetensors({}));
    server = await serveViewer(folder);
  },
  done: () => server?.stop(),
});

const chooser = (page) => page.locator("#pack-file");

inBrowser("a file is packed: ratio by tensor, saved, restored byte for byte, looked at", async (page, complaints) => {
  await page.goto(server.url);
  await page.getByRole("link", { name: "Compress" }).click();
  await chooser(page).setInputFiles(PLAIN);
  await page.getByRole("progressbar").first().waitFor();
  await page.getByRole("button", { name: /^Save model\.zstn/ }).waitFor();
  const size = Number(await page.locator("[data-packed]").getAttribute("value"));
  const { name, bytes } = await saved(page, () => page.getByRole("button", { name: /^Save/ }).click());
  assert.equal(name, "model.zstn");
  assert.equal(bytes.length, size);
  const [packed, restored] = [join(models, "packed.zstn"), join(models, "restored.safetensors")];
  writeFileSync(packed, bytes);
  await unpack(packed, restored);
  assert.ok(readFileSync(restored).equals(readFileSync(PLAIN)), "lossless");
  const lines = await page.locator(".pack-result tbody tr").evaluateAll((rows) => rows.map((line) => [...line.children].map((cell) => cell.textContent)));
  assert.equal(lines.length, 34);
  assert.match(lines.find(([tensor]) => tensor === MIDDLE_TENSOR)[3], /^1\.[45]\d×$/);
  assert.ok(lines.some(([, , , ratio]) => /^tied to/.test(ratio)));

  await page.getByRole("button", { name: "Look inside" }).click();
  await page.getByRole("heading", { name: "model.zstn" }).waitFor();
  await page.getByLabel("Search tensors").fill(MIDDLE_TENSOR);
  await row(page, MIDDLE_TENSOR).click();
  await page.locator(".statistics").waitFor();
  assert.deepEqual(complaints, []);
});

inBrowser("a fine-tune is packed against a base: saved, restored byte for byte, looked at with its base", async (page, complaints) => {
  await goTo(page, server, { view: "pack" });
  await page.locator("#pack-base").setInputFiles(OTHER);
  await page.getByRole("button", { name: "Remove the base other.safetensors" }).click();
  await page.locator("#pack-base").setInputFiles(PLAIN);
  await page.getByText("model.safetensors", { exact: true }).waitFor();
  await chooser(page).setInputFiles(TUNED);
  await page.getByRole("button", { name: "Save tuned.z4dm" }).waitFor();
  const { name, bytes } = await saved(page, () => page.getByRole("button", { name: /^Save/ }).click());
  assert.equal(name, "tuned.z4dm");
  assert.ok(bytes.length < readFileSync(TUNED).length / 50, `${bytes.length}`);
  const [packed, restored] = [join(models, "packed.z4dm"), join(models, "restored-tuned.safetensors")];
  writeFileSync(packed, bytes);
  await unpack(packed, restored, { base: PLAIN });
  assert.ok(readFileSync(restored).equals(readFileSync(TUNED)), "lossless");
  const lines = await page.locator(".pack-result tbody tr").evaluateAll((rows) => rows.map((line) => [...line.children].map((cell) => cell.textContent)));
  assert.match(lines.find(([tensor]) => tensor === MIDDLE_TENSOR)[3], /^\d+(\.\d+)?×$/);
  assert.equal(lines.filter(([, , , ratio]) => ratio === "as in the base").length, lines.length - 1);
  assert.match(await page.locator(".figures").innerText(), /33 as in the base/);

  await page.getByRole("button", { name: "Look inside" }).click();
  await page.getByRole("heading", { name: "tuned.z4dm" }).waitFor();
  await page.getByLabel("Search tensors").fill(MIDDLE_TENSOR);
  await row(page, MIDDLE_TENSOR).click();
  await page.locator(".statistics").waitFor();
  assert.deepEqual(complaints, []);
});

inBrowser("a file of another format is packed under its own name: restored byte for byte, looked at", async (page, complaints) => {
  await goTo(page, server, { view: "pack" });
  const values = new Uint8Array(Float32Array.from({ length: 4096 }, (_, i) => Math.sin(i)).buffer);
  const model = ggufFile({ "general.name": "small" }, [{ name: "layer.weight", shape: [64, 64], bytes: values }]);
  await chooser(page).setInputFiles({ name: "model.gguf", mimeType: "", buffer: model });
  const { name, bytes } = await saved(page, () => page.getByRole("button", { name: "Save model.gguf.zstn" }).click());
  assert.equal(name, "model.gguf.zstn");
  const [packed, restored] = [join(models, name), join(models, "restored.gguf")];
  writeFileSync(packed, bytes);
  await unpack(packed, restored);
  assert.ok(readFileSync(restored).equals(model), "lossless");
  await page.getByRole("button", { name: "Look inside" }).click();
  await page.getByRole("heading", { name }).waitFor();
  await row(page, "layer.weight").waitFor();
  assert.deepEqual(complaints, []);
});

inBrowser("packing can be cancelled, and begun again", async (page, complaints) => {
  await goTo(page, server, { view: "pack" });
  await page.getByLabel("Effort").selectOption("max");
  await chooser(page).setInputFiles(PLAIN);
  await page.getByRole("button", { name: "Cancel packing" }).click();
  await page.getByRole("alert").filter({ hasText: "Cancelled." }).waitFor();
  await page.getByLabel("Effort").selectOption("fast");
  const small = safetensors({ "a.weight": { dtype: "U8", shape: [1000], bytes: new Uint8Array(1000) } });
  const dropped = await page.evaluateHandle((bytes) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([Uint8Array.from(bytes)], "small.safetensors"));
    return transfer;
  }, [...small]);
  await page.dispatchEvent("body", "drop", { dataTransfer: dropped });
  await page.getByRole("button", { name: "Save small.zstn" }).waitFor();
  assert.deepEqual(complaints, []);
});

inBrowser("what is no safetensors file is refused in a sentence", async (page, complaints) => {
  await goTo(page, server, { view: "pack" });
  await chooser(page).setInputFiles({ name: "page.safetensors", mimeType: "", buffer: Buffer.from("<!doctype html><title>no</title>") });
  await page.getByRole("alert").or(page.getByRole("button", { name: /^Save/ })).first().waitFor();
  assert.match(await page.locator(".pack-result").innerText(), /web page|kept whole/);
  assert.deepEqual(complaints, []);
});
