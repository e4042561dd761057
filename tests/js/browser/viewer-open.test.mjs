/** The viewer: every way to open a model. */

import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { safetensors, writeLanguageModel } from "../support/checkpoint.mjs";
import { browserTests } from "../support/browser.mjs";
import { pack } from "../support/cli.mjs";
import { counters, idle, goTo, openModel, row, serveViewer, viewerFolder } from "../support/viewer.mjs";
import { vectorPath } from "../support/vectors.mjs";

const folder = viewerFolder();
const models = join(folder, "models");
const TOKEN = "hf_secret";
const COMMIT = "0123456789abcdef0123456789abcdef01234567";
const HUB_FILES = {
  "someone/plain": ["README.md", "config.json", "model.safetensors"],
  "someone/several": ["a.safetensors", "b.safetensors", "notes.txt"],
  "someone/private": ["model.safetensors"],
  "someone/empty": ["README.md"],
};
let [server, held] = [];

/** Answers like a hub: with file lists, and a repository that requires a token. */
function hub(request, path) {
  if (path === "/models/part-1.safetensors" && held) return held;
  const repository = /^\/hub\/(?:api\/models\/)?([^/]+\/[^/]+)/.exec(path)?.[1];
  if (!repository) return undefined;
  if (repository === "someone/private" && request.headers.authorization !== `Bearer ${TOKEN}`) return 401;
  if (!path.startsWith("/hub/api/")) return undefined;
  const files = HUB_FILES[repository];
  return files ? { siblings: files.map((rfilename) => ({ rfilename })) } : 404;
}

const { inBrowser } = browserTests({
  ready: async () => {
    const plain = join(models, "model.safetensors");
    await writeLanguageModel(plain);
    await pack(plain, join(models, "model.zstn"));
    const f32 = (...values) => ({ dtype: "F32", shape: [values.length], bytes: new Uint8Array(Float32Array.from(values).buffer) });
    const small = safetensors({ "a.weight": f32(1, 2, 3), "b.weight": f32(4, 5) });
    const tuned = safetensors({ "a.weight": f32(1, 2, 4), "b.weight": f32(4, 5) });
    writeFileSync(join(models, "small.safetensors"), small);
    writeFileSync(join(models, "tuned.safetensors"), tuned);
    copyFileSync(vectorPath("released/0.1.0", "merged.z4dm"), join(models, "merged.z4dm"));
    await pack(join(models, "tuned.safetensors"), join(models, "tuned.z4dm"), { base: join(models, "small.safetensors") });
    writeFileSync(join(models, "part-1.safetensors"), safetensors({ "a.weight": f32(1, 2, 3) }));
    writeFileSync(join(models, "part-2.safetensors"), safetensors({ "b.weight": f32(4, 5) }));
    const weight_map = { "a.weight": "part-1.safetensors", "b.weight": "part-2.safetensors" };
    writeFileSync(join(models, "sharded.safetensors.index.json"), JSON.stringify({ metadata: { total_size: 20 }, weight_map }));
    mkdirSync(join(models, "sharded"));
    writeFileSync(join(models, "sharded", "model.safetensors.index.json"), JSON.stringify({ weight_map }));
    for (const part of ["part-1", "part-2"]) writeFileSync(join(models, "sharded", `${part}.safetensors`), readFileSync(join(models, `${part}.safetensors`)));
    for (const [repository, files] of Object.entries(HUB_FILES)) {
      const at = join(folder, "hub", repository, "resolve", "main");
      mkdirSync(at, { recursive: true });
      for (const file of files) if (file.endsWith(".safetensors")) writeFileSync(join(at, file), small);
    }
    server = await serveViewer(folder, hub);
  },
  done: () => server?.stop(),
});

const heading = (page) => page.locator("#stage h1");

inBrowser("an address typed by a person opens in two round trips and is in the address bar", async (page, complaints) => {
  await page.goto(server.url);
  await page.getByLabel("Address of a model, or owner/name").fill("models/model.zstn");
  await page.keyboard.press("Enter");
  await heading(page).waitFor();
  assert.equal(await heading(page).innerText(), "model.zstn");
  assert.equal(new URL(page.url()).searchParams.get("src"), "models/model.zstn");
  assert.match(await page.title(), /model\.zstn/);
  const { requests, fetched } = await counters(page);
  assert.equal(requests, 2);
  assert.equal(server.fetched("/models/model.zstn").bytes, fetched, "the strip says what the server sent");
  assert.ok(fetched < 70_000, `${fetched} bytes`);
  assert.deepEqual(complaints, []);
});

inBrowser("a repository of a hub: its file is found, or a person chooses", async (page, complaints) => {
  const address = page.getByLabel("Address of a model, or owner/name");
  const hubAddress = `${server.url}hub`;
  await goTo(page, server, { hub: hubAddress, src: "someone/plain" });
  await heading(page).waitFor();
  assert.equal(await heading(page).innerText(), `someone/plain · model.safetensors, at ${new URL(server.url).origin}`, "a hub that is not the usual one is named");
  assert.deepEqual(await page.locator(".tree .label").allInnerTexts(), ["a.weight", "b.weight"]);
  assert.equal(await address.inputValue(), `${hubAddress}/someone/plain`);

  await address.fill(`${hubAddress}/someone/several`);
  await page.getByRole("button", { name: "Open", exact: true }).click();
  await page.getByRole("button", { name: "b.safetensors" }).click();
  await page.getByRole("heading", { name: "b.safetensors" }).waitFor();

  await address.fill(`${hubAddress}/someone/empty`);
  await page.keyboard.press("Enter");
  await page.getByRole("alert").filter({ hasText: /no file that can be read.*It has README\.md/ }).waitFor();
  assert.deepEqual(complaints, []);
});

inBrowser("a private repository asks for a token", async (page) => {
  await goTo(page, server, { hub: `${server.url}hub`, src: "someone/private" });
  await page.getByRole("alert").filter({ hasText: /not public/ }).waitFor();
  await page.getByRole("button", { name: "Add a token" }).click();
  await page.keyboard.type(TOKEN);
  await page.keyboard.press("Enter");
  await heading(page).waitFor();
  assert.match(await heading(page).innerText(), /someone\/private/);
  assert.ok(!page.url().includes(TOKEN), "never in the address");
});

for (const how of ["in a link", "typed"]) {
  inBrowser(`a relative address ${how} is read from the page's own server, and no hub is told`, async (page) => {
    const strangers = [];
    page.on("request", (request) => new URL(request.url()).origin !== new URL(server.url).origin && strangers.push(request.url()));
    const src = "models/sharded/model.safetensors.index.json";
    await goTo(page, server, how === "typed" ? {} : { src });
    if (how === "typed") {
      await page.getByLabel("Address of a model, or owner/name").fill(src);
      await page.keyboard.press("Enter");
    }
    await page.getByRole("heading", { name: "model.safetensors.index.json" }).waitFor();
    assert.deepEqual(await page.locator(".tree .label").allInnerTexts(), ["a.weight", "b.weight"]);
    assert.equal(new URL(page.url()).searchParams.get("src"), src);
    assert.deepEqual(strangers, []);
  });
}

inBrowser("a file of a repository is written hf://; where one is missing here, the page offers that", async (page) => {
  const asked = [];
  await page.route("https://huggingface.co/**", (route) => {
    const { pathname } = new URL(route.request().url());
    asked.push(pathname);
    const listing = JSON.stringify({ id: "someone/else", sha: COMMIT, siblings: [{ rfilename: "unet/model.safetensors" }] });
    return route.fulfill({ headers: { "access-control-allow-origin": "*" }, body: pathname.startsWith("/api/") ? listing : readFileSync(join(models, "small.safetensors")) });
  });
  await goTo(page, server, { src: "someone/else/unet/model.safetensors" });
  const offer = page.getByRole("button", { name: "Open it from Hugging Face" });
  await offer.waitFor();
  assert.deepEqual(asked, [], "nothing is sent unasked");
  await offer.click();
  await page.getByRole("heading", { name: "someone/else · model.safetensors" }).waitFor();
  assert.equal(new URL(page.url()).searchParams.get("src"), "hf://someone/else/unet/model.safetensors");
  await page.reload();
  await page.getByRole("heading", { name: "someone/else · model.safetensors" }).waitFor();
  const once = ["/api/models/someone/else/revision/main", `/someone/else/resolve/${COMMIT}/unet/model.safetensors`];
  assert.deepEqual(asked, [...once, ...once], "what is read is of the commit that main was");
});

for (const text of ["gpt2", "https://huggingface.co/gpt2", "https://huggingface.co/gpt2/resolve/main/model.safetensors?download=true"]) {
  inBrowser(`${text} is a repository of Hugging Face, under the name that it has there`, async (page) => {
    const asked = [];
    await page.route("https://huggingface.co/**", (route) => {
      const { pathname } = new URL(route.request().url());
      asked.push(pathname);
      const listing = JSON.stringify({ id: "openai-community/gpt2", sha: COMMIT, siblings: ["pytorch_model.bin", "onnx/model.onnx", "model.safetensors"].map((rfilename) => ({ rfilename })) });
      return route.fulfill({ headers: { "access-control-allow-origin": "*" }, body: pathname.startsWith("/api/") ? listing : readFileSync(join(models, "small.safetensors")) });
    });
    await page.goto(server.url);
    await page.getByLabel("Address of a model, or owner/name").fill(text);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "openai-community/gpt2 · model.safetensors" }).waitFor();
    assert.deepEqual(asked, ["/api/models/gpt2/revision/main", `/openai-community/gpt2/resolve/${COMMIT}/model.safetensors`]);
    assert.equal(new URL(page.url()).searchParams.get("src"), text);
  });
}

inBrowser("a model in shards, by its index or as dropped files", async (page, complaints) => {
  await openModel(page, server, "models/sharded.safetensors.index.json");
  assert.match(await page.locator(".figures").innerText(), /2 files/);
  const names = ["sharded.safetensors.index.json", "part-1.safetensors", "part-2.safetensors"];
  await page.getByLabel("Choose files of a model").setInputFiles(names.map((name) => join(models, name)));
  await row(page, "b.weight").click();
  await page.getByRole("heading", { name: "b.weight" }).waitFor();
  assert.equal(new URL(page.url()).searchParams.get("src"), null, "there is no link to a local file");
  assert.deepEqual(complaints, []);
});

inBrowser("files are dropped anywhere, and every kind of file opens", async (page, complaints) => {
  await page.goto(server.url);
  const dropped = await page.evaluateHandle(async () => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([await (await fetch("models/model.zstn")).blob()], "dropped.zstn"));
    return transfer;
  });
  await page.dispatchEvent("body", "dragenter", { dataTransfer: dropped });
  assert.ok(await page.locator("#drop-veil").isVisible());
  await page.dispatchEvent("body", "drop", { dataTransfer: dropped });
  await page.getByRole("heading", { name: "dropped.zstn" }).waitFor();
  assert.ok(await page.locator("#drop-veil").isHidden());
  assert.match(await page.locator(".count").innerText(), /^34 tensors$/);
  for (const [kind, file] of [["ztensor", "v01_py011_basic.zt"], ["zstn", "all_dtypes.zstn"]]) {
    const path = vectorPath(kind, file);
    await page.getByLabel("Choose files of a model").setInputFiles({ name: file, mimeType: "", buffer: readFileSync(path) });
    await page.getByRole("heading", { name: file }).waitFor();
  }
  assert.deepEqual(complaints, []);
});

inBrowser("a second model that comes late is not compared with another first one", async (page, complaints) => {
  let release;
  held = new Promise((resolve) => (release = resolve));
  await openModel(page, server, "models/small.safetensors");
  await page.getByRole("button", { name: "Compare with…" }).click();
  await page.keyboard.type("models/part-1.safetensors");
  await page.locator("#second-open").click();
  await page.getByRole("button", { name: "Cancel: Opening models/part-1.safetensors" }).waitFor();
  await page.getByLabel("Address of a model, or owner/name").fill("models/part-2.safetensors");
  await page.locator("#second").evaluate((field) => (field.value = ""));
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "part-2.safetensors" }).waitFor();
  release();
  held = undefined;
  await idle(page);
  assert.equal(await page.locator(".beside").count(), 0);
  assert.equal(new URL(page.url()).searchParams.get("with"), null);
  assert.deepEqual(complaints, []);
});

inBrowser("a failed opening leaves the link of what is shown, also of what was looked at since", async (page) => {
  await openModel(page, server, "models/small.safetensors", { q: "weight" });
  await row(page, "a.weight").click();
  await page.getByRole("heading", { name: "a.weight" }).waitFor();
  await page.getByLabel("Address of a model, or owner/name").fill("models/nothing.zstn");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").waitFor();
  const { tensor, src, q } = Object.fromEntries(new URL(page.url()).searchParams);
  assert.deepEqual({ tensor, src, q }, { tensor: "a.weight", src: "models/small.safetensors", q: "weight" });
});

inBrowser("a delta says that it needs its base, and opens with it", async (page) => {
  await goTo(page, server, { src: "models/tuned.z4dm" });
  await page.getByRole("alert").filter({ hasText: /This is a delta/ }).waitFor();
  await page.getByRole("button", { name: "Choose base…" }).click();
  await page.keyboard.type("models/small.safetensors");
  await page.getByRole("button", { name: "Open", exact: true }).click();
  await heading(page).waitFor();
  assert.equal(await heading(page).innerText(), "tuned.z4dm");
  assert.match(await page.locator(".beside").innerText(), /small\.safetensors/);
  assert.equal(new URL(page.url()).searchParams.get("with"), "models/small.safetensors");
  await row(page, "a.weight").click();
  await page.getByRole("button", { name: "Difference" }).click();
  await page.locator(".statistics").waitFor();
  assert.match(await page.locator(".statistics").innerText(), /changed\s+33\.3 %/);
});

inBrowser("the sample comes with the page, and a fine-tune of it", async (page, complaints) => {
  await page.goto(server.url);
  await page.getByRole("button", { name: /Compare two/ }).click();
  await heading(page).waitFor();
  assert.equal(await heading(page).innerText(), "sample-tuned.zstn");
  assert.match(await page.locator(".beside").innerText(), /sample\.zstn/);
  assert.deepEqual(complaints, []);
});

inBrowser("a press and its release make a click, though the list was drawn anew in between", async (page) => {
  await openModel(page, server, "models/model.zstn");
  await row(page, "lm_head.weight").hover();
  await page.mouse.down();
  const { width, height } = page.viewportSize();
  const rows = () => page.locator(".tree .row").count();
  const before = await rows();
  await page.setViewportSize({ width, height: height - 200 });
  while ((await rows()) === before) await page.waitForTimeout(20);
  await page.mouse.up();
  await page.getByRole("heading", { name: "lm_head.weight" }).waitFor();
});

inBrowser("a click without coordinates, as assistive technology sends it, opens its own row", async (page) => {
  await openModel(page, server, "models/model.zstn");
  await row(page, "lm_head.weight").evaluate((node) => node.click());
  await page.getByRole("heading", { name: "lm_head.weight" }).waitFor();
});

inBrowser("a link leads to a tensor, and back and forth work", async (page, complaints) => {
  await goTo(page, server, { src: "models/model.zstn", tensor: "transformer.h.1.ln_1.weight" });
  await page.getByRole("heading", { name: "transformer.h.1.ln_1.weight" }).waitFor();
  await row(page, "lm_head.weight").click();
  await page.getByRole("heading", { name: "lm_head.weight" }).waitFor();
  await page.goBack();
  await page.getByRole("heading", { name: "transformer.h.1.ln_1.weight" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("heading", { name: "model.zstn" }).waitFor();
  await page.goBack();
  await page.getByRole("heading", { name: "transformer.h.1.ln_1.weight" }).waitFor();
  assert.equal((await counters(page)).requests < 8, true, "going back opens nothing anew");
  assert.deepEqual(complaints, []);
});

for (const [what, src, pattern] of [
  ["a file that is not there", "models/nothing.zstn", /There is no file at .*nothing\.zstn.*404/],
  ["a page instead of a model", "index.html", /web page \(HTML\)/],
  ["words that are no address", "https://", /not a valid address/],
]) {
  inBrowser(`${what}: a sentence, a way out, and the page goes on`, async (page, complaints) => {
    await goTo(page, server, { src });
    const alert = page.getByRole("alert");
    await alert.waitFor();
    assert.match(await alert.innerText(), pattern);
    await alert.getByRole("button", { name: "Open the sample" }).click();
    await page.getByRole("heading", { name: "sample.zstn" }).waitFor();
    assert.equal(await alert.count(), 0);
    assert.equal(new URL(page.url()).searchParams.get("src"), "sample.zstn");
    await page.getByLabel("Address of a model, or owner/name").fill(src);
    await page.keyboard.press("Enter");
    await alert.waitFor();
    assert.ok(await page.getByRole("heading", { name: "sample.zstn" }).isVisible(), "what was open stays");
    assert.equal(new URL(page.url()).searchParams.get("src"), "sample.zstn", "and the address bar says what is seen");
    // Chromium itself logs a failed request. Any other message would be a fault of the page.
    assert.deepEqual(complaints.filter((text) => !/status of 404/.test(text)), []);
  });
}

inBrowser("a merged model says that the page opens deltas of one model", async (page) => {
  await goTo(page, server, { src: "models/merged.z4dm" });
  const alert = page.getByRole("alert").filter({ hasText: /merged from several others/ });
  await alert.waitFor();
  assert.equal(await page.getByRole("button", { name: "Choose base…" }).count(), 0);
  await goTo(page, server, { src: "models/merged.z4dm", with: "models/small.safetensors" });
  await alert.waitFor();
});
