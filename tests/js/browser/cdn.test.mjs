/** The package as one file from another origin, as a CDN serves it, without a bundler, an import map or any configuration. */

import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { browserTests } from "../support/browser.mjs";
import { MIDDLE_TENSOR, writeLanguageModel } from "../support/checkpoint.mjs";
import { pack } from "../support/cli.mjs";
import { installPacked } from "../support/packed.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { startSite } from "../support/server.mjs";
import { sha256 } from "../support/vectors.mjs";

const folder = scratchFolder();
let [cdn, site, tensors] = [];

const page = (address, head = "") => `<!doctype html><title>one file</title><link rel="icon" href="data:,">${head}<script type="module">
  import * as zstn from "${address}";
  globalThis.zstn = zstn;
  globalThis.digest = async (bytes) => [...new Uint8Array(await crypto.subtle.digest("SHA-256", bytes))].map((b) => b.toString(16).padStart(2, "0")).join("");
</script>`;

const { inBrowser } = browserTests({
  ready: async () => {
    const project = join(folder, "project");
    mkdirSync(project);
    await installPacked(project);
    const installed = join(project, "node_modules/zstn");
    const { jsdelivr, unpkg } = JSON.parse(readFileSync(join(installed, "package.json"), "utf8"));
    assert.equal(jsdelivr, unpkg);
    tensors = await writeLanguageModel(join(folder, "model.safetensors"));
    await pack(join(folder, "model.safetensors"), join(folder, "model.zstn"));
    cdn = await startSite({ "/npm/zstn/": installed }, {}, { "access-control-allow-origin": "*" });
    const address = `${cdn.url}npm/zstn/${jsdelivr.replace("./", "")}`;
    const noBlobs = `<meta http-equiv="Content-Security-Policy" content="worker-src 'self'">`;
    site = await startSite({ "/models/": folder }, { "/": page(address), "/forbidden": page(address, noBlobs) });
  },
  done: () => Promise.all([cdn, site].map((server) => server?.stop())),
});

async function openPage(page, address) {
  await page.goto(address);
  await page.waitForFunction("globalThis.zstn");
}

inBrowser("one script from another origin reads, decodes in workers, and packs", async (page, complaints) => {
  await openPage(page, site.url);
  const first = cdn.requests.length;
  const got = await page.evaluate(async (name) => {
    const bytes = new Uint8Array(await (await fetch("/models/model.zstn")).arrayBuffer());
    const pool = zstn.workerPool({ size: 2 });
    const model = await zstn.open(bytes, { workers: pool });
    const tensor = await model.tensor(name);
    const { decoded, startError } = pool;
    pool.close();
    const frame = await zstn.compress(tensor.bytes.slice(0, 4096), { dtype: "BF16" });
    const back = await zstn.decompress(frame);
    return { digest: await digest(tensor.bytes), decoded, startError: String(startError), back: await digest(back), hub: zstn.hub("me/model").origin, expected: await digest(tensor.bytes.slice(0, 4096)) };
  }, MIDDLE_TENSOR);
  assert.deepEqual([got.digest, got.decoded, got.startError], [sha256(tensors[MIDDLE_TENSOR].bytes), 1, "undefined"]);
  assert.equal(got.back, got.expected);
  assert.equal(got.hub, "https://huggingface.co", "the one file has the exports of zstn/hub too");
  const asked = cdn.requests.slice(first).map(({ path }) => path.split("/").at(-1));
  assert.deepEqual([...new Set(asked)].sort(), ["zstn-worker.min.js", "zstn_coder.js", "zstn_coder_bg.wasm", "zstn_wasm_bg.wasm"], "each part once, when it is needed");
  assert.deepEqual(complaints, []);
});

inBrowser("where the page forbids such workers, it decodes by itself and says which script was refused", async (page) => {
  await openPage(page, `${site.url}forbidden`);
  const got = await page.evaluate(async (name) => {
    const pool = zstn.workerPool({ size: 1 });
    const model = await zstn.open("/models/model.zstn?whole", { workers: pool, maxFullDownloadBytes: 1e9 });
    return { digest: await digest((await model.tensor(name)).bytes), decoded: pool.decoded, startError: String(pool.startError) };
  }, MIDDLE_TENSOR);
  assert.deepEqual([got.digest, got.decoded], [sha256(tensors[MIDDLE_TENSOR].bytes), 0]);
  assert.match(got.startError, /npm\/zstn\/dist\/zstn-worker\.min\.js, could not be loaded/);
});
