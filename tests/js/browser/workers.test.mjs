/** Decoding in workers and on threads, in pages that allow them and in pages that do not. */

import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { MIDDLE_TENSOR, writeLanguageModel } from "../support/checkpoint.mjs";
import { browserTests } from "../support/browser.mjs";
import { pack } from "../support/cli.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { startSite } from "../support/server.mjs";
import { withoutThreads } from "../support/threads.mjs";
import { sha256 } from "../support/vectors.mjs";

const dist = fileURLToPath(new URL("../../../wasm/dist/", import.meta.url));
const ISOLATED = { "cross-origin-opener-policy": "same-origin", "cross-origin-embedder-policy": "require-corp" };
const NAMES = [MIDDLE_TENSOR, "lm_head.weight", "transformer.h.1.mlp.c_fc.weight"];

/** Code that reads some tensors, in a page or in a worker. `workers` is the option of `open`. */
const READ = `
  const hex = (buffer) => [...new Uint8Array(buffer)].map((b) => b.toString(16).padStart(2, "0")).join("");
  globalThis.read = async (zstn, model, names, workers) => {
    const opened = await zstn.open(new Uint8Array(await (await fetch(model)).arrayBuffer()), workers === undefined ? {} : { workers });
    const tensors = await Promise.all(names.map((name) => opened.tensor(name)));
    const digests = await Promise.all(tensors.map(async ({ bytes }) => hex(await crypto.subtle.digest("SHA-256", bytes))));
    opened.close();
    return digests;
  };
  globalThis.failure = (call) => { try { call(); } catch ({ name, code, message }) { return { name, code, message }; } };
`;
const page = (package_, head = "") => `<!doctype html><title>workers</title><link rel="icon" href="data:,">${head}<script type="module">
  import * as zstn from "${package_}web.js";
  import * as threads from "${package_}threads/web.js";
  ${READ}
  Object.assign(globalThis, { zstn, threads });
</script>`;
const NESTED = { type: "text/javascript", text: `
  import * as zstn from "/dist/web.js";
  ${READ}
  const pool = zstn.workerPool({ size: 2 });
  onmessage = async ({ data: [model, names] }) => postMessage({ digests: await read(zstn, model, names, pool), decoded: pool.decoded });
  postMessage("ready");
` };

const scratch = scratchFolder();
let [site, isolated, halfIsolated, cdn, elsewhere, tensors] = [];

const { inBrowser } = browserTests({
  ready: async () => {
    tensors = await writeLanguageModel(join(scratch, "model.safetensors"));
    await pack(join(scratch, "model.safetensors"), join(scratch, "model.zstn"));
    const folders = { "/dist/": dist, "/models/": scratch };
    const forbidden = page("/dist/", `<meta http-equiv="Content-Security-Policy" content="script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval'; worker-src 'none'">`);
    site = await startSite(folders, { "/": page("/dist/"), "/forbidden": forbidden, "/nested.js": NESTED, "/incomplete/decode/web-worker.js": { type: "text/html", text: "<p>no such file" } });
    isolated = await startSite(folders, { "/": page("/dist/") }, ISOLATED);
    halfIsolated = await startSite(folders, { "/": page("/dist/") }, (path) => (path === "/" ? ISOLATED : {}));
    cdn = await startSite(folders, {}, { "access-control-allow-origin": "*" });
    elsewhere = await startSite(folders, { "/": page(`${cdn.url}dist/`) });
  },
  done: () => Promise.all([site, isolated, halfIsolated, cdn, elsewhere].map((server) => server?.stop())),
});

async function openPage(page, address) {
  await page.goto(address);
  await page.waitForFunction("globalThis.zstn");
}

const expected = () => NAMES.map((name) => sha256(tensors[name].bytes));

inBrowser("a pool of workers, each with the module that was compiled once", async (page, complaints) => {
  await openPage(page, site.url);
  const first = site.requests.length;
  const got = await page.evaluate(async (names) => {
    const pool = zstn.workerPool({ size: 2 });
    const digests = await read(zstn, "/models/model.zstn", names, pool);
    const { decoded, running, startError } = pool;
    pool.close();
    return { digests, decoded, running, startError: String(startError), after: pool.running };
  }, NAMES);
  assert.deepEqual(got, { digests: expected(), decoded: 3, running: 2, startError: "undefined", after: 0 });
  const modules = site.requests.slice(first).filter(({ path }) => path.endsWith(".wasm"));
  assert.deepEqual(modules.map(({ path }) => path), ["/dist/core/zstn_wasm_bg.wasm"]);
  assert.deepEqual(complaints, []);
});

inBrowser("a large tensor is decoded by two workers together", async (page, complaints) => {
  await openPage(page, site.url);
  const got = await page.evaluate(async (name) => {
    const pool = zstn.workerPool({ size: 2, minBytes: 1 << 16 });
    const digests = await read(zstn, "/models/model.zstn", [name], pool);
    const { decoded, running } = pool;
    pool.close();
    return { digests, decoded, running };
  }, NAMES[1]);
  assert.deepEqual(got, { digests: [expected()[1]], decoded: 1, running: 2 });
  assert.deepEqual(complaints, []);
});

inBrowser("without a word on workers, and with none", async (page, complaints) => {
  await openPage(page, site.url);
  const scripts = () => site.requests.filter(({ path }) => path.endsWith("/web-worker.js")).length;
  const first = scripts();
  assert.deepEqual(await page.evaluate((names) => read(zstn, "/models/model.zstn", names, 0), NAMES), expected());
  assert.equal(scripts(), first);
  assert.deepEqual(await page.evaluate((names) => read(zstn, "/models/model.zstn", names), NAMES), expected());
  assert.ok(scripts() > first);
  assert.deepEqual(complaints, []);
});

inBrowser("from inside a worker", async (page, complaints) => {
  await openPage(page, site.url);
  const got = await page.evaluate(
    (names) =>
      new Promise((resolve, reject) => {
        const worker = new Worker("/nested.js", { type: "module" });
        worker.onerror = ({ message }) => reject(new Error(message));
        worker.onmessage = ({ data }) => (data === "ready" ? worker.postMessage(["/models/model.zstn", names]) : resolve(data));
      }),
    NAMES,
  );
  assert.deepEqual(got, { digests: expected(), decoded: 3 });
  assert.deepEqual(complaints, []);
});

/** Reads with a pool that may not be able to start workers. */
const alone = (page, make) =>
  page.evaluate(
    async ([names, make]) => {
      if (make) zstn.configure({ createWorker: () => new Worker(make, { type: "module" }) });
      const pool = zstn.workerPool({ size: 2 });
      const digests = await read(zstn, "/models/model.zstn", names, pool);
      return { digests, decoded: pool.decoded, running: pool.running, startError: pool.startError?.message ?? "" };
    },
    [NAMES, make],
  );

inBrowser("where a Content-Security-Policy forbids workers, the page decodes", async (page) => {
  await openPage(page, `${site.url}forbidden`);
  const { startError, ...got } = await alone(page);
  assert.deepEqual(got, { digests: expected(), decoded: 0, running: 0 });
  assert.equal(startError, `its script, ${site.url}dist/decode/web-worker.js, could not be loaded`);
});

inBrowser("where the package comes from another origin, workers start all the same", async (page, complaints) => {
  await openPage(page, elsewhere.url);
  assert.deepEqual(await alone(page), { digests: expected(), decoded: 3, running: 2, startError: "" });
  assert.deepEqual(complaints, []);
});

inBrowser("where the package comes from another origin, a script of the page's own helps", async (page, complaints) => {
  await openPage(page, elsewhere.url);
  const got = await page.evaluate(
    async ([names, script]) => {
      const url = URL.createObjectURL(new Blob([`import ${JSON.stringify(script)};`], { type: "text/javascript" }));
      zstn.configure({ createWorker: () => new Worker(url, { type: "module" }) });
      const pool = zstn.workerPool({ size: 2 });
      return { digests: await read(zstn, "/models/model.zstn", names, pool), decoded: pool.decoded };
    },
    [NAMES, `${cdn.url}dist/decode/web-worker.js`],
  );
  assert.deepEqual(got, { digests: expected(), decoded: 3 });
  assert.deepEqual(complaints, []);
});

inBrowser("where the script was left behind, the page decodes", async (page) => {
  await openPage(page, site.url);
  for (const script of ["/no/such/web-worker.js", "/incomplete/decode/web-worker.js"]) {
    const { startError, ...got } = await alone(page, script);
    assert.deepEqual(got, { digests: expected(), decoded: 0, running: 0 });
    assert.match(startError, /could not be loaded/);
  }
});

inBrowser("threads in a page that is isolated", async (page, complaints) => {
  await openPage(page, isolated.url);
  const got = await page.evaluate(async (names) => {
    const pool = threads.threadPool({ threads: 2 });
    const digests = await read(zstn, "/models/model.zstn", names, pool);
    const { decoded, running, startError } = pool;
    pool.close();
    return { digests, decoded, running, startError: String(startError) };
  }, NAMES);
  assert.deepEqual(got, { digests: expected(), decoded: 3, running: 1, startError: "undefined" });
  assert.deepEqual(complaints, []);
}, { skip: withoutThreads });

inBrowser("threads whose scripts come without the page's headers: it decodes by itself, and says what is missing", async (page) => {
  await openPage(page, halfIsolated.url);
  const got = await page.evaluate(async (names) => {
    const pool = threads.threadPool({ threads: 2 });
    const digests = await read(zstn, "/models/model.zstn", names, pool);
    return { digests, decoded: pool.decoded, startError: pool.startError?.message };
  }, NAMES);
  assert.deepEqual([got.digests, got.decoded], [expected(), 0]);
  assert.match(got.startError, /Cross-Origin-Embedder-Policy/);
}, { skip: withoutThreads });

inBrowser("threads where memory cannot be shared are refused by name", async (page) => {
  await openPage(page, isolated.url);
  const error = await page.evaluate(() => {
    delete globalThis.SharedArrayBuffer;
    return failure(() => threads.threadPool());
  });
  assert.deepEqual([error.name, error.code], ["UnsupportedError", "unsupported"]);
  assert.match(error.message, /no SharedArrayBuffer/);
});

inBrowser("threads in a page that is not are refused, with advice", async (page) => {
  await openPage(page, site.url);
  const error = await page.evaluate("failure(() => threads.threadPool())");
  assert.deepEqual([error.name, error.code], ["UnsupportedError", "unsupported"]);
  assert.match(error.message, /Cross-Origin-Embedder-Policy/);
});
