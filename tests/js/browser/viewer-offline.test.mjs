/** The service worker of the published page: without a network the page still opens, and it never caches models. */

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { brotliCompressSync } from "node:zlib";
import { build } from "esbuild";
import { browserTests } from "../support/browser.mjs";
import { writeLanguageModel } from "../support/checkpoint.mjs";
import { goTo, idle, serveViewer, viewerFolder } from "../support/viewer.mjs";

const SOURCE = fileURLToPath(new URL("../../../web-demo/standalone/offline-worker.ts", import.meta.url));
const folder = viewerFolder({ offline: true });
let server;
/** Whether the server answers at all. */
let isOnline = true;

const { inBrowser } = browserTests({
  ready: async () => {
    await writeLanguageModel(join(folder, "models", "local.safetensors"));
    server = await serveViewer(folder, () => (isOnline ? undefined : "abort"));
  },
  done: () => server?.stop(),
});

/** Opens the sample, and waits until the service worker controls the page's next visits. */
async function visit(page) {
  await goTo(page, server, { src: "sample.zstn" });
  await page.locator(".cell-grid").waitFor();
  await idle(page);
  await page.evaluate(() => navigator.serviceWorker.ready.then(({ active }) => active.state === "activated" || new Promise((resolve) => active.addEventListener("statechange", resolve))));
}

const builds = (page) => page.evaluate(async () => (await caches.keys()).map((name) => name.split(" ").at(-1)));

const cachedPaths = (page) =>
  page.evaluate(async () => {
    const caching = await Promise.all((await caches.keys()).map(async (name) => (await (await caches.open(name)).keys()).map(({ url }) => new URL(url).pathname)));
    return caching.flat();
  });

inBrowser("after a visit the page opens local files without a network", async (page) => {
  await visit(page);
  // The second visit is controlled by the worker, which caches the modules that it needs.
  await page.reload();
  await page.locator(".cell-grid").waitFor();
  await idle(page);
  try {
    isOnline = false;
    await page.goto(server.url);
    await page.locator("#files").setInputFiles(join(folder, "models", "local.safetensors"));
    await page.locator(".tree .row").first().waitFor();
    await page.locator("#files").setInputFiles(join(folder, "sample.zstn"));
    await page.getByRole("heading", { name: "sample.zstn" }).waitFor();
    await goTo(page, server, { src: "sample.zstn" });
    await page.getByRole("alert").waitFor();
  } finally {
    isOnline = true;
  }
  const paths = await cachedPaths(page);
  assert.ok(paths.length >= 5 && paths.includes("/"), paths.join());
  assert.deepEqual(paths.filter((path) => !/^\/(assets\/[^/]+\.(js|css|wasm)|favicon\.svg)?$/.test(path)), [], "and only files of the page are cached");
});

inBrowser("a new build is shown at the next visit; the previous one stays for open tabs, and older ones are deleted", async (page) => {
  await visit(page);
  const [html, worker] = ["index.html", "offline-worker.js"].map((name) => readFileSync(join(folder, name), "utf8"));
  const before = await builds(page);
  assert.equal(before.length, 1);
  try {
    let expected = before;
    for (const next of ["0123456789abcdef", "1123456789abcdef"]) {
      writeFileSync(join(folder, "index.html"), html.replace("See inside a model<br>", `Build ${next}<br>`));
      writeFileSync(join(folder, "offline-worker.js"), worker.replace(/[0-9a-f]{16}(?=[`"'])/, next));
      server.renew();
      await page.goto(server.url);
      await page.getByRole("heading", { name: `Build ${next}` }).waitFor();
      await page.evaluate(() => navigator.serviceWorker.getRegistration().then((registration) => registration.update()));
      expected = [expected.at(-1), next];
      for (let turn = 0; turn < 100 && String(await builds(page)) !== String(expected); turn++) await page.waitForTimeout(100);
      assert.deepEqual(await builds(page), expected);
    }
  } finally {
    writeFileSync(join(folder, "index.html"), html);
    writeFileSync(join(folder, "offline-worker.js"), worker);
    server.renew();
  }
});

inBrowser("a build without the worker removes the worker of an earlier build, and its caches", async (page) => {
  await visit(page);
  const worker = readFileSync(join(folder, "offline-worker.js"), "utf8");
  const { outputFiles } = await build({ entryPoints: [SOURCE], bundle: true, format: "iife", write: false, define: { FILES: "[]", FIRST_FILES: "[]", ENTRY: '""', BUILD: '"off"' } });
  try {
    writeFileSync(join(folder, "offline-worker.js"), outputFiles[0].contents);
    server.renew();
    await page.evaluate(() => navigator.serviceWorker.getRegistration().then((registration) => registration.update()));
    const left = () => page.evaluate(async () => [(await navigator.serviceWorker.getRegistrations()).length, (await caches.keys()).length]);
    for (let turn = 0; turn < 100 && String(await left()) !== "0,0"; turn++) await page.waitForTimeout(100);
    assert.deepEqual(await left(), [0, 0]);
  } finally {
    writeFileSync(join(folder, "offline-worker.js"), worker);
    server.renew();
  }
});

inBrowser("an embedded page installs nothing", async (page) => {
  await goTo(page, server, { embed: "1", src: "sample.zstn" });
  await page.locator(".cell-grid").waitFor();
  await idle(page);
  assert.equal(await page.evaluate(async () => (await navigator.serviceWorker.getRegistrations()).length), 0);
});

test("the service worker stays small", (t) => {
  const bytes = brotliCompressSync(readFileSync(join(folder, "offline-worker.js"))).length;
  t.diagnostic(`${bytes} bytes after brotli`);
  assert.ok(bytes <= 2500, `${bytes} bytes`);
});
