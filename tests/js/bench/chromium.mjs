/** Runs the measurements in a cross-origin isolated page, where threads are available. */

import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { launchBrowser } from "../support/browser.mjs";
import { startSite } from "../support/server.mjs";

const folder = (path) => fileURLToPath(new URL(path, import.meta.url));

export async function inChromium(packed, withThreads, beside) {
  const others = Object.keys(beside).map((name, number) => [name, `/beside/${number}/`]);
  const page = `<!doctype html><script type="module">
    import * as zstn from "/dist/web.js";
    import { threadPool } from "/dist/threads/web.js";
    import { measured } from "/bench/measured.mjs";
    const model = new Uint8Array(await (await fetch("/model/model.zstn")).arrayBuffer());
    const others = {};
    for (const [name, dist] of ${JSON.stringify(others)}) others[name] = await import(dist + "web.js");
    globalThis.measured = await measured(zstn, ${withThreads} && threadPool, model, others);
  </script>`;
  const headers = { "cross-origin-opener-policy": "same-origin", "cross-origin-embedder-policy": "require-corp" };
  const folders = { "/dist/": folder("../../../wasm/dist/"), "/bench/": folder("."), "/model/": dirname(packed) };
  for (const [name, path] of others) folders[path] = beside[name];
  const site = await startSite(folders, { "/": page }, headers);
  const browser = await launchBrowser("chromium");
  const tab = await browser.newPage();
  await tab.goto(site.url);
  await tab.waitForFunction("globalThis.measured", undefined, { timeout: 120_000 });
  const names = await tab.evaluate("Object.keys(measured.ways)");
  return {
    ways: Object.fromEntries(names.map((name) => [name, () => tab.evaluate(`measured.ways[${JSON.stringify(name)}]()`)])),
    done: async () => {
      await tab.evaluate("measured.done()");
      await browser.close();
      await site.stop();
    },
  };
}
