/** The viewer inside pages of other sites: `?embed`, `?theme=`, and the custom element `<zstn-viewer>`. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { brotliCompressSync } from "node:zlib";
import { browserTests } from "../support/browser.mjs";
import { startSite } from "../support/server.mjs";
import { goTo, idle, serveViewer, viewerFolder } from "../support/viewer.mjs";

const TENSOR = "transformer.h.1.mlp.c_fc.weight";
const folder = viewerFolder();
let server;
let site;

/** The pages of another site, whose policy allows nothing but the viewer. Its origin differs in the port. */
const element = (attributes) => `<!doctype html><title>A model</title><script src="${server.url}zstn-viewer.js" async></script><p>Above</p><zstn-viewer ${attributes}></zstn-viewer><p>Below</p>`;

const { inBrowser } = browserTests({
  ready: async () => {
    server = await serveViewer(folder);
    const pages = { "/favicon.ico": "", "/element": element('src="sample.zstn" theme="dark"'), "/frame": `<!doctype html><title>A model</title><iframe src="${server.url}?embed&src=sample.zstn" width="700" height="500" title="Contents of the model"></iframe>` };
    site = await startSite({}, pages, { "content-security-policy": `default-src 'none'; script-src ${server.url}; frame-src ${server.url}; img-src 'self'` });
  },
  done: () => Promise.all([server?.stop(), site?.stop()]),
});

const background = (scope) => scope.locator("body").evaluate((body) => getComputedStyle(body).backgroundColor);

inBrowser("an embedded page has no header and no footer, and its links lead to the whole viewer", async (page, complaints) => {
  await goTo(page, server, { embed: "1", src: "sample.zstn" });
  await page.locator(".cell-grid").waitFor();
  await idle(page);
  for (const selector of [".top", ".wire"]) assert.equal(await page.locator(selector).isVisible(), false, selector);
  await page.getByRole("button", { name: "Open in viewer" }).waitFor();
  const [whole] = await Promise.all([page.context().waitForEvent("page"), page.getByRole("button", { name: "Open in viewer" }).click()]);
  await whole.locator(".cell-grid").waitFor();
  assert.equal(new URL(whole.url()).search, "?src=sample.zstn");
  assert.equal(await whole.locator(".top").isVisible(), true);
  assert.deepEqual(complaints, []);
});

for (const [theme, colorScheme, ground] of [["dark", "light", "rgb(17, 18, 20)"], ["light", "dark", "rgb(244, 243, 239)"]]) {
  inBrowser(
    `?theme=${theme} outranks the system's ${colorScheme} scheme and stays while the user navigates`,
    async (page) => {
      await goTo(page, server, { theme, src: "sample.zstn", tensor: TENSOR });
      await page.locator(".statistics").first().waitFor();
      assert.equal(await background(page), ground);
      await page.keyboard.press("Escape");
      await page.getByRole("heading", { name: "sample.zstn" }).waitFor();
      assert.equal(new URL(page.url()).searchParams.get("theme"), theme);
    },
    { colorScheme },
  );
}

inBrowser("the element shows a model, takes the height of its contents, and follows its attributes", async (page, complaints) => {
  await page.goto(`${site.url}element`);
  const viewer = page.locator("zstn-viewer");
  const frame = page.frameLocator("zstn-viewer iframe");
  await frame.locator(".cell-grid").waitFor();
  assert.equal(await background(frame), "rgb(17, 18, 20)");
  const scrolls = () => frame.locator("html").evaluate((html) => html.scrollHeight - html.clientHeight);
  await page.waitForFunction(() => document.querySelector("zstn-viewer").clientHeight > 620);
  for (let turn = 0; (await scrolls()) > 0 && turn < 50; turn++) await page.waitForTimeout(100);
  assert.equal(await scrolls(), 0, "the frame is as high as its contents");
  const entries = await page.evaluate(() => history.length);
  await viewer.evaluate((node, tensor) => {
    node.setAttribute("tensor", tensor);
    node.setAttribute("theme", "light");
  }, TENSOR);
  await frame.getByRole("heading", { name: TENSOR }).waitFor();
  assert.equal(await background(frame), "rgb(244, 243, 239)");
  await viewer.evaluate((node) => {
    node.removeAttribute("tensor");
    node.setAttribute("src", "sample-tuned.zstn");
  });
  await frame.getByRole("heading", { name: "sample-tuned.zstn" }).waitFor();
  assert.equal(await page.evaluate(() => history.length), entries, "the history of the page is unchanged");
  assert.match(await page.locator("zstn-viewer iframe").getAttribute("title"), /sample-tuned\.zstn/);
  assert.deepEqual(complaints, []);
});

inBrowser("a path is an address of the page with the element, whose styles decide about the height", async (page) => {
  await page.goto(`${site.url}element`);
  const viewer = page.locator("zstn-viewer");
  await page.frameLocator("zstn-viewer iframe").locator(".cell-grid").waitFor();
  await viewer.evaluate((node) => {
    node.style.height = "300px";
    node.setAttribute("src", "./nothing.zstn");
  });
  await page.frameLocator("zstn-viewer iframe").getByRole("alert").waitFor();
  assert.ok(site.requests.some(({ path }) => path === "/nothing.zstn"));
  assert.equal(await viewer.evaluate((node) => node.clientHeight), 300);
});

inBrowser("a plain iframe works without the script", async (page, complaints) => {
  await page.goto(`${site.url}frame`);
  await page.frameLocator("iframe").locator(".cell-grid").waitFor();
  assert.deepEqual(complaints, []);
});

test("the script of the element stays small", (t) => {
  const bytes = brotliCompressSync(readFileSync(join(folder, "zstn-viewer.js"))).length;
  t.diagnostic(`${bytes} bytes after brotli`);
  assert.ok(bytes <= 1200, `${bytes} bytes`);
});
