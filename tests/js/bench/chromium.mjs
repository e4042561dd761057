/** The same in a page that is isolated, so that it may have threads. */

import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { launchChromium } from "../support/chromium.mjs";
import { startSite } from "../support/server.mjs";

const folder = (path) => fileURLToPath(new URL(path, import.meta.url));

export async function inChromium(packed, withThreads) {
  const page = `<!doctype html><script type="module">
    import * as zstn from "/dist/web.js";
    import { threadPool } from "/dist/threads/web.js";
    import { measured } from "/bench/measured.mjs";
    const model = new Uint8Array(await (await fetch("/model/model.zstn")).arrayBuffer());
    globalThis.measured = await measured(zstn, threadPool, model, ${withThreads});
  </script>`;
  const headers = { "cross-origin-opener-policy": "same-origin", "cross-origin-embedder-policy": "require-corp" };
  const site = await startSite({ "/dist/": folder("../../../wasm/dist/"), "/bench/": folder("."), "/model/": dirname(packed) }, { "/": page }, headers);
  const browser = await launchChromium();
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
