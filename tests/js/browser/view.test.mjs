/** `zstn view`: the command opens local models in the page, under the page's own security policy. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { browserTests } from "../support/browser.mjs";
import { writeLanguageModel } from "../support/checkpoint.mjs";
import { pack, program } from "../support/cli.mjs";
import { largeLayout } from "../support/large-layout.mjs";
import { scratchFolder } from "../support/scratch.mjs";

const PAGE = fileURLToPath(new URL("../../../web-demo/dist", import.meta.url));
const folder = scratchFolder();
const plain = join(folder, "model.safetensors");
const packed = join(folder, "my model.zstn");

const { inBrowser } = browserTests({
  ready: async () => {
    await writeLanguageModel(plain);
    await pack(plain, packed);
  },
});

/**
 * Runs `zstn view` and passes its link to `work`. `page` contains the arguments that select the page; without any, the
 * embedded viewer is used.
 */
async function viewing(inputs, work, page = ["--page", PAGE]) {
  const view = spawn(program(), ["view", "--no-open", ...page, ...inputs], { stdio: ["ignore", "pipe", "inherit"] });
  try {
    const [link] = await once(createInterface({ input: view.stdout }), "line");
    await work(link);
  } finally {
    view.kill("SIGINT");
    const [status] = await once(view, "exit");
    assert.equal(status, 0);
  }
}

inBrowser("a packed model is shown, under the policy of the page as a header", async (page, complaints) => {
  await viewing([packed], async (link) => {
    const answer = await page.goto(link);
    const policy = await page.locator('meta[http-equiv="Content-Security-Policy"]').getAttribute("content");
    const sent = answer.headers()["content-security-policy"];
    assert.ok(sent.includes(policy) && sent.includes("frame-ancestors 'none'"), sent);
    await page.locator(".tree .row").first().waitFor();
    const figures = await page.locator(".figures").first().innerText();
    assert.match(figures, /34/, "tensors");
    assert.deepEqual(complaints, []);
  });
});

inBrowser("the program has the page with it", async (page, complaints) => {
  const own = [];
  await viewing(
    [packed],
    async (link) => {
      await page.goto(link);
      await page.locator(".tree .row").first().waitFor();
      assert.equal(await page.evaluate(async () => (await navigator.serviceWorker.getRegistrations()).length), 0, "it has no service worker");
      assert.equal(await page.locator("html").getAttribute("data-offline"), null);
      assert.deepEqual(complaints, []);
    },
    own,
  );
});

inBrowser("two models are compared", async (page) => {
  await viewing([packed, plain], async (link) => {
    await page.goto(link);
    await page.locator(".tree .row").first().waitFor();
    assert.match(page.url(), /with=/);
  });
});

inBrowser("a model of 70 billion parameters is listed", async (page) => {
  await viewing([await largeLayout(folder)], async (link) => {
    await page.goto(link);
    await page.locator(".tree .row").first().waitFor();
    assert.match(await page.locator(".figures").first().innerText(), /723/);
  });
});
