/** Access tokens in the viewer: each is sent to the server that it was entered for, and to no other. */

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { safetensors } from "../support/checkpoint.mjs";
import { browserTests } from "../support/browser.mjs";
import { startGuarded } from "../support/guarded-server.mjs";
import { goTo, serveViewer, viewerFolder } from "../support/viewer.mjs";

const folder = viewerFolder();
const TOKEN = "hf_secret";
const BEARER = `Bearer ${TOKEN}`;
const f32 = (...values) => ({ dtype: "F32", shape: [values.length], bytes: new Uint8Array(Float32Array.from(values).buffer) });
const MODEL = Buffer.from(safetensors({ "a.weight": f32(1, 2, 3) }));
/**
 * The servers: the page's own server, one that requires the token, one without access control, and one that requires
 * another token.
 */
let server;
let guarded;
let other;
let greedy;

const { inBrowser } = browserTests({
  ready: async () => {
    writeFileSync(join(folder, "models", "local.safetensors"), MODEL);
    server = await serveViewer(folder);
    other = await startGuarded({ model: MODEL, files: { "/x.safetensors": MODEL } });
    greedy = await startGuarded({ model: MODEL, token: "of another server" });
    const index = (weight_map) => Buffer.from(JSON.stringify({ weight_map }));
    guarded = await startGuarded({
      model: MODEL,
      token: TOKEN,
      files: {
        "/private.safetensors": MODEL,
        "/shards.safetensors.index.json": index({ "a.weight": "private.safetensors" }),
        "/elsewhere.safetensors.index.json": index({ "a.weight": `${other.url}x.safetensors` }),
      },
      redirects: { "/moved.safetensors": `${other.url}x.safetensors` },
    });
  },
  done: () => Promise.all([server, guarded, other, greedy].map((each) => each?.stop())),
});

const address = (page) => page.getByLabel("Address of a model, or owner/name");
const heading = (page, name) => page.getByRole("heading", { name, exact: true });
const alert = (page) => page.getByRole("alert");
const tokenField = (page, host) => page.getByLabel(`Access token for ${host}`, { exact: true });

const forget = () => [guarded, other, greedy].forEach((each) => each.forget());

async function open(page, text) {
  await address(page).fill(text);
  await page.keyboard.press("Enter");
}

async function typeToken(page, host, token = TOKEN) {
  await page.locator("#token-menu summary").click();
  await tokenField(page, host).fill(token);
}

/** Opens the private file with its token, which is entered when the page requests it. */
async function openPrivate(page, route = {}) {
  await goTo(page, server, { src: `${guarded.url}private.safetensors`, ...route });
  await alert(page).waitFor();
  await typeToken(page, guarded.origin);
  await page.keyboard.press("Enter");
  await heading(page, "private.safetensors").waitFor();
  assert.ok(guarded.tokens().every((token) => token === BEARER) && guarded.tokens().length > 0);
}

/** Replaces huggingface.co. Returns the list of requests to it. */
async function huggingFace(page) {
  const asked = [];
  await page.route("https://huggingface.co/**", async (route) => {
    const request = route.request();
    const { pathname } = new URL(request.url());
    asked.push({ path: pathname, token: await request.headerValue("authorization") });
    const headers = { "access-control-allow-origin": "*" };
    if (pathname.startsWith("/api/")) return route.fulfill({ headers, json: { siblings: [{ rfilename: "model.safetensors" }] } });
    return route.fulfill({ headers, body: MODEL, contentType: "application/octet-stream" });
  });
  return asked;
}

inBrowser("a second model that a link adds is read without the first one's token", async (page) => {
  forget();
  await openPrivate(page, { with: `${other.url}x.safetensors` });
  await page.locator(".beside", { hasText: "x.safetensors" }).waitFor();
  assert.ok(other.received.length > 0, "it was read");
  assert.deepEqual(other.tokens(), []);
});

inBrowser("a token for Hugging Face does not go to the hub of a link, and typed names are Hugging Face's", async (page) => {
  forget();
  const asked = await huggingFace(page);
  await goTo(page, server, { hub: other.url });
  await typeToken(page, "huggingface.co");
  await open(page, "openai-community/gpt2");
  await page.getByRole("heading", { name: /^openai-community\/gpt2/ }).waitFor();
  assert.deepEqual(other.received, []);
  assert.ok(asked.length >= 2 && asked.every(({ token }) => token === BEARER), JSON.stringify(asked));
  assert.equal(new URL(page.url()).searchParams.get("hub"), null);
});

inBrowser("a name typed after a link's repository is Hugging Face's again", async (page) => {
  forget();
  const asked = await huggingFace(page);
  await goTo(page, server, { hub: other.url, src: "meta-llama/Llama-3.1-8B" });
  await heading(page, `meta-llama/Llama-3.1-8B · model.safetensors, at ${other.origin}`).waitFor();
  assert.equal(await address(page).inputValue(), `${other.url}meta-llama/Llama-3.1-8B`, "the field says where it is");
  forget();
  await open(page, "openai-community/gpt2");
  await heading(page, "openai-community/gpt2 · model.safetensors").waitFor();
  assert.deepEqual(other.received, []);
  assert.ok(asked.length >= 2);
  await page.reload();
  await heading(page, "openai-community/gpt2 · model.safetensors").waitFor();
  assert.deepEqual(other.received, []);
});

inBrowser("a link's hub that wants a token is named, with a warning", async (page) => {
  forget();
  await goTo(page, server, { hub: greedy.url, src: "meta-llama/Llama-3.1-8B" });
  await alert(page).waitFor();
  assert.match(await alert(page).innerText(), new RegExp(`This link reads from ${greedy.origin}, not Hugging Face\\.`));
  assert.deepEqual(await alert(page).locator("b").allInnerTexts(), [greedy.origin, greedy.origin]);
  await page.getByRole("button", { name: "Add a token" }).click();
  assert.equal(await page.evaluate(() => document.activeElement.labels[0].innerText), `Access token for ${greedy.origin}`);
  assert.match(await page.locator("#token-menu .sheet").innerText(), /This link reads from .*, not Hugging Face\./);
});

inBrowser("another address opened later gets nothing of a token", async (page) => {
  forget();
  await openPrivate(page);
  await open(page, `${other.url}x.safetensors`);
  await heading(page, "x.safetensors").waitFor();
  assert.deepEqual(other.tokens(), []);
});

inBrowser("a model opened beside another gets nothing of its token", async (page) => {
  forget();
  await openPrivate(page);
  await page.locator("#compare-menu summary").click();
  await page.locator("#second").fill(`${other.url}x.safetensors`);
  await page.locator("#second-open").click();
  await page.locator(".beside", { hasText: "x.safetensors" }).waitFor();
  assert.ok(other.received.length > 0);
  assert.deepEqual(other.tokens(), []);
});

inBrowser("shards get the token beside their index, and an index cannot send it elsewhere", async (page) => {
  forget();
  await goTo(page, server, {});
  await address(page).fill(`${guarded.url}shards.safetensors.index.json`);
  await typeToken(page, guarded.origin);
  await page.keyboard.press("Enter");
  await heading(page, "shards.safetensors.index.json").waitFor();
  await open(page, `${guarded.url}elsewhere.safetensors.index.json`);
  await alert(page).waitFor();
  assert.deepEqual(other.received, []);
});

inBrowser("a redirect to another server leaves the token behind", async (page) => {
  forget();
  await openPrivate(page);
  await open(page, `${guarded.url}moved.safetensors`);
  await heading(page, "moved.safetensors").waitFor();
  assert.ok(other.received.length > 0);
  assert.deepEqual(other.tokens(), []);
});

inBrowser("back and forth, every server is asked with its own token", async (page) => {
  forget();
  await openPrivate(page);
  await open(page, `${other.url}x.safetensors`);
  await heading(page, "x.safetensors").waitFor();
  guarded.forget();
  await page.goBack();
  await heading(page, "private.safetensors").waitFor();
  assert.ok(guarded.tokens().length > 0 && guarded.tokens().every((token) => token === BEARER));
  await page.goForward();
  await heading(page, "x.safetensors").waitFor();
  await page.locator("#token-menu summary").click();
  assert.equal(await tokenField(page, other.origin).inputValue(), "", "nor does the field show it for another server");
  assert.equal(await tokenField(page, guarded.origin).count(), 0);
  assert.deepEqual(other.tokens(), []);
});

inBrowser("a private repository of a link's hub opens with the token for that hub", async (page) => {
  forget();
  await goTo(page, server, { hub: guarded.url, src: "someone/private@v2" });
  await page.getByRole("button", { name: "Add a token" }).click();
  await page.keyboard.type(TOKEN);
  await page.keyboard.press("Enter");
  await heading(page, `someone/private · model.safetensors, at ${guarded.origin}`).waitFor();
  const opened = guarded.received.filter(({ token }) => token !== undefined).map(({ path }) => path);
  assert.equal(opened[0], "/api/models/someone/private/revision/v2");
  assert.ok(opened.length > 1 && opened.slice(1).every((path) => path === "/someone/private/resolve/v2/model.safetensors"), String(opened));
  const link = page.url();
  assert.ok(!link.includes(TOKEN));
  guarded.forget();
  await page.goto(link);
  await alert(page).waitFor();
  assert.deepEqual(guarded.received, [{ path: "/api/models/someone/private/revision/v2", token: undefined }], "the link leads to the same, and the token is forgotten");
});

inBrowser("two servers, two tokens: each is asked for with its name and sent to its server", async (page) => {
  forget();
  await openPrivate(page);
  await page.locator("#compare-menu summary").click();
  await page.locator("#second").fill(`${greedy.url}someone/other/resolve/main/model.safetensors`);
  await page.locator("#second-open").click();
  await alert(page).waitFor();
  assert.match(await alert(page).innerText(), new RegExp(`add an access token for ${greedy.origin}\\.`));
  assert.doesNotMatch(await alert(page).innerText(), /This link/, "the person named it");
  await page.getByRole("button", { name: "Add a token" }).click();
  await page.keyboard.type("of another server");
  assert.equal(await tokenField(page, guarded.origin).inputValue(), TOKEN);
  await page.locator("#compare-menu summary").click();
  await page.locator("#second-open").click();
  await page.locator(".beside", { hasText: "model.safetensors" }).waitFor();
  assert.ok(greedy.tokens().length > 0 && greedy.tokens().every((token) => token === "Bearer of another server"));
  assert.ok(guarded.tokens().every((token) => token === BEARER));
});

inBrowser("a token that is not enough is to be changed", async (page) => {
  forget();
  await goTo(page, server, { src: `${guarded.url}private.safetensors` });
  await alert(page).waitFor();
  await typeToken(page, guarded.origin, "hf_wrong");
  await page.keyboard.press("Enter");
  await alert(page).filter({ hasText: "was not accepted" }).waitFor();
  await page.getByRole("button", { name: "Change the token" }).click();
  await page.keyboard.press("Control+A");
  await page.keyboard.type(TOKEN);
  await page.keyboard.press("Enter");
  await heading(page, "private.safetensors").waitFor();
});

inBrowser("the field is for the server of the address, as that is typed", async (page) => {
  await page.goto(server.url);
  const label = () => page.locator("#tokens label").allInnerTexts();
  await page.locator("#token-menu summary").click();
  assert.deepEqual(await label(), ["Access token for huggingface.co"]);
  await tokenField(page, "huggingface.co").fill(TOKEN);
  for (const [text, host] of [
    ["https://models.example/a.zstn", "models.example"],
    ["https://huggingface.co.evil.example/owner/name", "huggingface.co.evil.example"],
    ["http://huggingface.co/owner/name", "http://huggingface.co"],
    ["models/local.safetensors", new URL(server.url).origin],
  ]) {
    await address(page).fill(text);
    await page.getByLabel(`Access token for ${host}`, { exact: true }).waitFor();
    assert.deepEqual(await label(), [`Access token for ${host}`]);
    assert.equal(await page.locator("#tokens input").inputValue(), "");
    assert.match(await page.locator("#tokens").innerText(), new RegExp(`Never stored\\. Sent only to ${host}\\.`));
  }
  await address(page).fill("owner/name");
  assert.equal(await tokenField(page, "huggingface.co").inputValue(), TOKEN);
  await page.locator("#compare-menu summary").click();
  await page.locator("#second").pressSequentially("https://models.example/base.zstn"); // Firefox fires no change event for a value that a script has set
  await page.locator("#token-menu summary").click();
  await tokenField(page, "huggingface.co").click();
  await tokenField(page, "models.example").waitFor();
  assert.deepEqual(await label(), ["Access token for huggingface.co", "Access token for models.example"]);
  await page.keyboard.press("End");
  await page.keyboard.type("2");
  assert.equal(await tokenField(page, "huggingface.co").inputValue(), `${TOKEN}2`, "a field that stays keeps the focus");
});

inBrowser("a link with a hub that is no web address opens nothing", async (page) => {
  const asked = await huggingFace(page);
  await goTo(page, server, { hub: "javascript:alert(1)", src: "owner/name" });
  await alert(page).filter({ hasText: "is not a web address" }).waitFor();
  assert.deepEqual(asked, []);
});
