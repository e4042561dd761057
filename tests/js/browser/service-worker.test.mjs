/** A page that only reads safetensors, with a service worker that serves a packed model to it. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { MIDDLE_TENSOR, writeLanguageModel } from "../support/checkpoint.mjs";
import { browserTests } from "../support/browser.mjs";
import { pack, serve } from "../support/cli.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { startSite } from "../support/server.mjs";
import { goodZTensors, sha256, vectorPath } from "../support/vectors.mjs";

const js = (path) => fileURLToPath(new URL(path, import.meta.url));
const scratch = scratchFolder();
let [models, site, tensors, original] = [];

const ztensor = goodZTensors[0];
const worker = (model) => `
import { serveSafetensors } from "./dist/service-worker.js";
serveSafetensors({ "/models/x.safetensors": ${JSON.stringify(model)}, "models/zt.safetensors": "/ztensor/${ztensor.file}", "/models/gone.safetensors": "/models/gone.zstn" });
addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(clients.claim()));
`;

const PAGE = `<!doctype html><title>safetensors</title><link rel="icon" href="data:,"><script type="module">
  import { readSafetensors } from "/support/safetensors-reader.mjs";
  globalThis.readSafetensors = readSafetensors;
  globalThis.digest = async (bytes) => [...new Uint8Array(await crypto.subtle.digest("SHA-256", bytes))].map((b) => b.toString(16).padStart(2, "0")).join("");
  /** A file behind an address, by HEAD and ranges. */
  globalThis.remote = async (url) => {
    const head = await fetch(url, { method: "HEAD" });
    const part = (begin, end) => ({
      size: end - begin,
      slice: (from, to = end - begin) => part(begin + from, begin + to),
      arrayBuffer: async () => {
        const response = await fetch(url, { headers: { range: "bytes=" + begin + "-" + (end - 1) } });
        if (response.status !== 206) throw new Error("status " + response.status);
        return response.arrayBuffer();
      },
      text: async function () { return new TextDecoder().decode(await this.arrayBuffer()); },
    });
    return part(0, Number(head.headers.get("content-length")));
  };
  await navigator.serviceWorker.register("/worker.mjs", { type: "module" });
  await navigator.serviceWorker.ready;
  if (!navigator.serviceWorker.controller) await new Promise((resolve) => navigator.serviceWorker.addEventListener("controllerchange", resolve, { once: true }));
  globalThis.served = true;
</script>`;

const { inBrowser } = browserTests({
  ready: async () => {
    tensors = await writeLanguageModel(join(scratch, "model.safetensors"));
    original = readFileSync(join(scratch, "model.safetensors"));
    await pack(join(scratch, "model.safetensors"), join(scratch, "model.zstn"));
    models = await serve(scratch);
    const folders = { "/dist/": js("../../../wasm/dist/"), "/support/": js("../support/"), "/ztensor/": vectorPath("ztensor", "") };
    site = await startSite(folders, { "/": PAGE, "/worker.mjs": { type: "text/javascript", text: worker(`${models.url}model.zstn`) } });
  },
  done: async () => {
    await models?.stop();
    await site?.stop();
  },
});

async function openPage(page) {
  await page.goto(site.url);
  await page.waitForFunction("globalThis.served");
}

inBrowser("one tensor of a packed model, by a reader of safetensors", async (page, complaints) => {
  await openPage(page);
  const first = models.requests.length;
  const got = await page.evaluate(async (name) => {
    const read = await readSafetensors(await remote("/models/x.safetensors"));
    return { names: read.names, metadata: read.metadata, sha256: await digest(await read.bytesOf(name)) };
  }, MIDDLE_TENSOR);
  assert.equal(got.sha256, sha256(tensors[MIDDLE_TENSOR].bytes));
  assert.deepEqual(got.names, Object.keys(tensors));
  assert.equal(got.metadata.format, "pt");
  const log = (await models.settled(first + 3)).slice(first);
  assert.ok(log.length <= 3 && log.every(({ method, status }) => method === "GET" && status === 206), JSON.stringify(log));
  assert.ok(log.reduce((sum, { bytes }) => sum + bytes, 0) < 1_300_000, "its frame, header and index");
  assert.deepEqual(complaints, []);
});

inBrowser("the whole file, byte for byte, and what a file server would say", async (page) => {
  await openPage(page);
  const got = await page.evaluate(async () => {
    const url = "/models/x.safetensors?download=true";
    const asked = async (headers, method = "GET") => {
      const response = await fetch(url, { method, headers });
      return [response.status, response.headers.get("content-range"), response.headers.get("accept-ranges"), response.headers.get("content-length")];
    };
    const whole = await fetch(url);
    const etag = whole.headers.get("etag");
    return {
      status: whole.status,
      sha256: await digest(await whole.arrayBuffer()),
      etag,
      head: await asked({}, "HEAD"),
      last: await asked({ range: "bytes=-5", "if-range": etag ?? "" }),
      beyond: await asked({ range: "bytes=99999999999-" }),
    };
  });
  const size = original.length;
  assert.equal(got.status, 200);
  assert.equal(got.sha256, sha256(original));
  assert.deepEqual(got.head, [200, null, "bytes", String(size)]);
  assert.equal(got.etag === null, false, "the server's ETag is visible, so there is one");
  assert.deepEqual(got.last, [206, `bytes ${size - 5}-${size - 1}/${size}`, "bytes", "5"]);
  assert.deepEqual(got.beyond.slice(0, 2), [416, `bytes */${size}`]);
});

inBrowser("other formats, although a service worker has no import(); other addresses go to the server", async (page) => {
  await openPage(page);
  const got = await page.evaluate(async () => {
    const read = await readSafetensors(await remote("/models/zt.safetensors"));
    const digests = {};
    for (const name of read.names) digests[name] = await digest(await read.bytesOf(name));
    const gone = await fetch("/models/gone.safetensors");
    const elsewhere = await fetch("/models/y.safetensors");
    return { digests, gone: [gone.status, await gone.text()], elsewhere: elsewhere.status };
  });
  assert.deepEqual(got.digests, Object.fromEntries(ztensor.tensors.map(({ name, sha256 }) => [name, sha256])));
  assert.equal(got.gone[0], 404);
  assert.match(got.gone[1], /gone\.zstn/);
  assert.equal(got.elsewhere, 404);
});

inBrowser("a read that the page gives up is no trouble for the next", async (page) => {
  await openPage(page);
  const got = await page.evaluate(async (name) => {
    const stop = new AbortController();
    const response = await fetch("/models/x.safetensors", { signal: stop.signal });
    await response.body.getReader().read();
    stop.abort();
    const read = await readSafetensors(await remote("/models/x.safetensors"));
    return digest(await read.bytesOf(name));
  }, "transformer.ln_f.weight");
  assert.equal(got, sha256(tensors["transformer.ln_f.weight"].bytes));
});
