/**
 * The viewer as a page: accessible names for all controls, the security policy, phones, both colour schemes, and the
 * download size.
 */

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { brotliCompressSync } from "node:zlib";
import { browserTests, onlyChromium } from "../support/browser.mjs";
import { goTo, idle, serveViewer, viewerFolder } from "../support/viewer.mjs";

const folder = viewerFolder();
const TENSOR = "transformer.h.1.mlp.c_fc.weight";
let server;

/** Every view that a user can reach. */
const VIEWS = {
  welcome: [{}, "#welcome h1"],
  overview: [{ src: "sample.zstn" }, ".cell-grid"],
  tensor: [{ src: "sample.zstn", tensor: TENSOR }, "table.values td"],
  "side by side": [{ src: "sample.zstn", with: "sample-tuned.zstn", tensor: TENSOR, mode: "side" }, ".side:nth-child(2) table.values td"],
  difference: [{ src: "sample.zstn", with: "sample-tuned.zstn", tensor: TENSOR, mode: "difference" }, "table.values td"],
  pack: [{ view: "pack" }, ".pack h1"],
  error: [{ src: "nothing.zstn" }, '[role="alert"]'],
};

const { inBrowser } = browserTests({
  ready: async () => {
    server = await serveViewer(folder);
  },
  done: () => server?.stop(),
});

async function view(page, name) {
  const [route, there] = VIEWS[name];
  await goTo(page, server, route);
  await page.locator(there).first().waitFor();
  await idle(page);
}

/** The roles of controls and of live regions. */
const NAMED = new Set(["button", "link", "textbox", "searchbox", "spinbutton", "combobox", "checkbox", "radio", "treeitem", "tree", "progressbar", "image", "img", "application", "region", "dialog", "DisclosureTriangle"]);

for (const name of Object.keys(VIEWS)) {
  inBrowser(`${name}: every control has a name, one heading leads, nothing complains`, async (page, complaints) => {
    await view(page, name);
    if (name === "overview") for (const menu of ["compare-menu", "token-menu"]) await page.locator(`#${menu}`).evaluate((node) => (node.open = true));
    const devtools = await page.context().newCDPSession(page);
    const { nodes } = await devtools.send("Accessibility.getFullAXTree");
    const nameless = nodes.filter(({ ignored, role, name: named }) => !ignored && NAMED.has(role?.value) && !named?.value?.trim());
    const described = await Promise.all(
      nameless.map(async ({ role, backendDOMNodeId }) => {
        const { outerHTML } = await devtools.send("DOM.getOuterHTML", { backendNodeId: backendDOMNodeId });
        return `${role.value}: ${outerHTML.slice(0, 200)}`;
      }),
    );
    assert.deepEqual(described, []);
    assert.ok(nodes.filter(({ role }) => NAMED.has(role?.value)).length >= 5, "the tree is not empty");
    assert.equal(await page.locator("h1:visible").count(), 1);
    assert.equal(await page.evaluate(() => document.documentElement.lang), "en");
    // Chromium itself logs a failed request.
    assert.deepEqual(complaints.filter((text) => !/status of 404/.test(text)), []);
  }, { skip: onlyChromium("the accessibility tree is read by the protocol of its developer tools") });

  inBrowser(
    `${name}: on a phone nothing is wider than the screen`,
    async (page) => {
      await view(page, name);
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)) <= 0);
    },
    { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true },
  );
}

inBrowser("the policy of the page forbids what it does not need", async (page, complaints) => {
  await view(page, "tensor");
  const policy = await page.locator('meta[http-equiv="Content-Security-Policy"]').getAttribute("content");
  for (const part of ["default-src 'none'", "script-src 'self' 'wasm-unsafe-eval'", "worker-src 'self'", "style-src 'self'", "base-uri 'none'"]) assert.ok(policy.includes(part), part);
  assert.ok(!/unsafe-inline|unsafe-eval'(?<!wasm-unsafe-eval')/.test(policy), policy);
  assert.deepEqual(complaints, [], "and nothing was blocked");
  await page.evaluate(() => document.body.append(Object.assign(document.createElement("script"), { textContent: "globalThis.injected = true" })));
  assert.equal(await page.evaluate(() => globalThis.injected), undefined, "an inline script does not run");
});

inBrowser("the keyboard alone will do", async (page, complaints) => {
  await view(page, "overview");
  await page.keyboard.press("/");
  await page.keyboard.type("ln_1");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("End");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "transformer.h.3.ln_1.weight" }).waitFor();
  assert.equal(await page.locator('.row[aria-selected="true"]').count(), 1);
  await page.keyboard.press("Escape");
  await page.getByRole("heading", { name: "sample.zstn" }).waitFor();
  await goTo(page, server, { src: "sample.zstn", tensor: TENSOR });
  const map = page.locator(".heatmap");
  await map.focus();
  await page.locator('.caption[data-complete="true"]').waitFor();
  for (const key of ["+", "+", "ArrowDown", "ArrowRight"]) await page.keyboard.press(key);
  await page.locator(".caption", { hasText: /Rows [1-9]\d*–/ }).waitFor();
  await page.keyboard.press("0");
  await page.locator(".caption", { hasText: "Rows 0–127 of 128" }).waitFor();
  assert.deepEqual(complaints, []);
});

for (const colorScheme of ["light", "dark"]) {
  inBrowser(
    `${colorScheme}: text stands out from its ground`,
    async (page) => {
      await view(page, "overview");
      const contrast = await page.evaluate(() => {
        const luminance = (colour) => {
          const [r, g, b] = /rgba?\((\d+), (\d+), (\d+)/.exec(colour).slice(1).map((part) => (Number(part) / 255 <= 0.04045 ? Number(part) / 255 / 12.92 : ((Number(part) / 255 + 0.055) / 1.055) ** 2.4));
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const ground = luminance(getComputedStyle(document.body).backgroundColor);
        return [...document.querySelectorAll("h1, .figure dt, .row .label, .row .about, .caption, .counters dt, .fetched dd, .fact, .exact, .sources summary, .below .link, .verdict, .findings span")].map((node) => {
          const ink = luminance(getComputedStyle(node).color);
          return [node.className || node.tagName, (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05)];
        });
      });
      for (const [what, ratio] of contrast) assert.ok(ratio >= 4.5, `${what}: ${ratio.toFixed(2)}`);
      const scheme = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      assert.equal(/rgb\(2\d\d/.test(scheme), colorScheme === "light");
    },
    { colorScheme },
  );
}

test("the scripts of the page are within their budget", (t) => {
  const assets = join(folder, "assets");
  const scripts = readdirSync(assets).filter((name) => name.endsWith(".js"));
  const sizes = scripts.map((name) => [name, brotliCompressSync(readFileSync(join(assets, name))).length]);
  const total = sizes.reduce((sum, [, bytes]) => sum + bytes, 0);
  t.diagnostic(`after brotli: ${sizes.map(([name, bytes]) => `${name} ${(bytes / 1000).toFixed(1)} kB`).join(", ")}; together ${(total / 1000).toFixed(1)} kB`);
  assert.ok(scripts.length >= 2);
  assert.ok(total <= 165_500, `${total} bytes`);
});
