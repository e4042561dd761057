/** The package in a browser without a bundler, as a plain module script. */

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { MIDDLE_TENSOR, safetensors, writeLanguageModel } from "../support/checkpoint.mjs";
import { pack as packInNode } from "zstn";
import { browserName, browserTests } from "../support/browser.mjs";
import { pack, serve } from "../support/cli.mjs";
import { framing } from "../support/framing.mjs";
import { withLittleMemory } from "../support/little-memory.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { answerRange, startServer, startSite } from "../support/server.mjs";
import { goodContainers, sha256, vectorPath } from "../support/vectors.mjs";

const dist = fileURLToPath(new URL("../../../wasm/dist/", import.meta.url));
const PAGE = `<!doctype html><title>plain</title><link rel="icon" href="data:,"><input type="file"><script type="module">
  import * as zstn from "/dist/web.js";
  globalThis.zstn = zstn;
  globalThis.digest = async (bytes) => [...new Uint8Array(await crypto.subtle.digest("SHA-256", bytes))].map((b) => b.toString(16).padStart(2, "0")).join("");
  globalThis.failure = (call) => call.then(() => "no error", ({ name, code, message, status }) => ({ name, code, message, status }));
</script>`;
/** A worker that counts the workers that it starts. */
const WORKER = `
  import * as zstn from "/dist/web.js";
  let started = 0;
  globalThis.Worker = class extends globalThis.Worker {
    constructor(...script) {
      super(...script);
      started += 1;
    }
  };
  onmessage = async ({ data: [url, tensor] }) => {
    const model = await zstn.open(url);
    const { bytes } = await model.tensor(tensor);
    postMessage({ started, length: bytes.length });
  };
`;

const scratch = scratchFolder();
let [models, site, tensors] = [];

const { inBrowser } = browserTests({
  ready: async () => {
    tensors = await writeLanguageModel(join(scratch, "model.safetensors"));
    await pack(join(scratch, "model.safetensors"), join(scratch, "model.zstn"));
    models = await serve(scratch);
    site = await startSite({ "/dist/": dist, "/vectors/": vectorPath("zstn", "") }, { "/": PAGE, "/worker.js": { type: "text/javascript", text: WORKER } });
  },
  done: async () => {
    await models?.stop();
    await site?.stop();
  },
});

async function openPage(page) {
  await page.goto(site.url);
  await page.waitForFunction("globalThis.zstn");
}

inBrowser("one tensor from another origin takes three requests and little more than its own bytes", async (page, complaints) => {
  await openPage(page);
  const first = models.requests.length;
  const got = await page.evaluate(
    async ([url, name]) => {
      const model = await zstn.open(url);
      const tensor = await model.tensor(name);
      return { sha256: await digest(tensor.bytes), array: tensor.data.constructor.name, stats: { ...model.stats }, storedLength: model.tensors.get(name).storedLength };
    },
    [`${models.url}model.zstn`, MIDDLE_TENSOR],
  );
  assert.equal(got.sha256, sha256(tensors[MIDDLE_TENSOR].bytes));
  assert.equal(got.array, "Uint16Array");

  const log = (await models.settled(first + got.stats.requests)).slice(first);
  assert.ok(log.length <= 3, JSON.stringify(log));
  assert.ok(log.every(({ method, status }) => method === "GET" && status === 206), "no preflight, no whole file");
  const fetchedBytes = log.reduce((sum, { bytes }) => sum + bytes, 0);
  const { headerBytes, indexBytes } = framing(readFileSync(join(scratch, "model.zstn")));
  assert.ok(fetchedBytes <= got.storedLength + indexBytes + headerBytes + 65536, `${fetchedBytes} bytes`);
  assert.equal(got.stats.bytesFetched, fetchedBytes);
  assert.deepEqual(complaints, []);
});

inBrowser("a tensor that begins in the bytes read at opening is still one request", async (page) => {
  await openPage(page);
  const first = models.requests.length;
  const got = await page.evaluate(async (url) => {
    const model = await zstn.open(url);
    const [name, info] = [...model.tensors].find(([, { parts: [{ offset, length }] }]) => offset < 32768 && offset + length > 32768);
    const tensor = await model.tensor(name);
    return { name, offset: info.parts[0].offset, sha256: await digest(tensor.bytes), requests: model.stats.requests };
  }, `${models.url}model.zstn`);
  assert.equal(got.sha256, sha256(tensors[got.name].bytes));
  // The browser's own cache would send a validation request for the cached bytes and another request for the rest.
  const log = (await models.settled(first + got.requests)).slice(first);
  assert.deepEqual(log.map(({ status }) => status), [206, 206, 206]);
});

inBrowser("a file that a person chose, a Blob and bytes", async (page) => {
  const container = goodContainers.find(({ name }) => name === "all_dtypes");
  await openPage(page);
  await page.setInputFiles("input", vectorPath("zstn", container.container.file));
  const got = await page.evaluate(async () => {
    const file = document.querySelector("input").files[0];
    const read = async (source) => {
      const model = await zstn.open(source);
      const digests = {};
      for (const name of model.tensors.keys()) digests[name] = await digest((await model.tensor(name)).bytes);
      return digests;
    };
    return Promise.all([read(file), read(file.slice()), read(await file.arrayBuffer()), read(new Uint8Array(await file.arrayBuffer()))]);
  });
  const expected = Object.fromEntries(container.tensors.map(({ name, sha256 }) => [name, sha256]));
  for (const digests of got) assert.deepEqual(digests, expected);
});

inBrowser("errors keep their class and their words", async (page) => {
  await openPage(page);
  const [missing, noRange, name, aborted, gone] = await page.evaluate(
    async ([served, plain]) => {
      const model = await zstn.open(`${served}model.zstn`);
      return [
        await failure(zstn.open(`${served}nothing.zstn`)),
        await failure(zstn.open("vectors/all_dtypes.zstn", { maxFullDownloadBytes: 0 })),
        await failure(model.tensor("transformer.wtf.weight")),
        await failure(model.tensor("lm_head.weight", { signal: AbortSignal.abort() })),
        await failure(zstn.open("http://127.0.0.1:9/model.zstn")),
        plain,
      ];
    },
    [models.url, site.url],
  );
  assert.deepEqual([missing.name, missing.code, missing.status], ["HttpError", "http", 404]);
  assert.deepEqual([noRange.name, noRange.code], ["RangeNotSupportedError", "range_not_supported"], "and a relative address counts from the page");
  assert.match(name.message, /Did you mean transformer\.w[tp]e\.weight/);
  assert.equal(aborted.name, "AbortError");
  assert.equal(gone.name, "NetworkError");
  assert.match(gone.message, /CORS/);
});

inBrowser("a server that hides Content-Range from pages is asked for the size", async (page) => {
  const file = readFileSync(join(scratch, "model.zstn"));
  const server = await startServer((request, response) => answerRange(request, response, file, { "access-control-allow-origin": "*" }));
  try {
    await openPage(page);
    const got = await page.evaluate(async (url) => {
      const model = await zstn.open(url);
      const tensor = await model.tensor("transformer.ln_f.weight");
      return { size: model.size, sha256: await digest(tensor.bytes) };
    }, `${server.url}model.zstn`);
    assert.deepEqual(got, { size: file.length, sha256: sha256(tensors["transformer.ln_f.weight"].bytes) });
    const methods = server.requests.map(({ method }) => method);
    assert.equal(methods.filter((method) => method === "HEAD").length, 1);
    assert.ok(!methods.includes("OPTIONS"), "no preflight");
  } finally {
    await server.stop();
  }
});

inBrowser("a server that does not allow pages is a network error that says so", async (page) => {
  const server = await startServer((request, response) => answerRange(request, response, Buffer.alloc(100)));
  try {
    await openPage(page);
    const error = await page.evaluate((url) => failure(zstn.open(url)), `${server.url}model.zstn`);
    assert.deepEqual([error.name, error.code], ["NetworkError", "network"]);
  } finally {
    await server.stop();
  }
});

inBrowser("the module can come from elsewhere, and without it there is an error with advice", async (page) => {
  await openPage(page);
  const got = await page.evaluate(async () => {
    const bytes = new Uint8Array(await (await fetch("/vectors/all_dtypes.zstn")).arrayBuffer());
    zstn.configure({ wasm: { reader: "/no/such.wasm" } });
    const model = await zstn.open(bytes);
    const [name] = model.tensors.keys();
    const refused = await failure(model.tensor(name));
    zstn.configure({ wasm: { reader: await fetch("/dist/core/zstn_wasm_bg.wasm") } });
    await model.tensor(name);
    return { refused, tensors: model.tensors.size };
  });
  assert.deepEqual([got.refused.name, got.refused.code, got.tensors], ["CoreLoadError", "core", 22]);
  assert.match(got.refused.message, /wasm-unsafe-eval/);
});

inBrowser("after a trap on the page's own thread, models are lost, and the next ones are not", async (page, complaints) => {
  await openPage(page);
  const module = withLittleMemory(readFileSync(join(dist, "core/zstn_wasm_bg.wasm")), 2 << 20).toString("base64");
  const got = await page.evaluate(
    async ([module, url]) => {
      zstn.configure({ wasm: { reader: Uint8Array.from(atob(module), (character) => character.charCodeAt(0)) } });
      const open = () => zstn.open(url, { workers: 0 });
      const small = [...(await open()).tensors.values()].find(({ byteLength }) => byteLength > 0 && byteLength < 100_000).name;
      const [model, other] = [await open(), await open()];
      // A model is in an instance from its first read on.
      await other.tensor(small);
      const trap = await failure(model.tensor("lm_head.weight"));
      const lost = [await failure(model.tensor(small)), await failure(other.tensor(small))].map(({ code }) => code);
      model.close();
      const again = await (await open()).tensor(small);
      return { trap: [trap.name, trap.code], lost, name: small, digest: await digest(again.bytes) };
    },
    [module, `${models.url}model.zstn`],
  );
  assert.deepEqual([got.trap, got.lost], [["InternalError", "internal"], ["closed", "closed"]]);
  assert.equal(got.digest, sha256(tensors[got.name].bytes));
  assert.deepEqual(complaints, []);
});

inBrowser("a file that a person dropped is packed, read by name, and restored", async (page, complaints) => {
  await openPage(page);
  await page.setInputFiles("input", join(scratch, "model.safetensors"));
  const got = await page.evaluate(async (name) => {
    const loaded = () => performance.getEntriesByType("resource").filter(({ name }) => name.endsWith("zstn_coder_bg.wasm")).length;
    const before = loaded();
    const events = [];
    const packed = await zstn.pack(document.querySelector("input").files[0], { onProgress: ({ loadedBytes, totalBytes }) => events.push(loadedBytes / totalBytes) });
    const { blob, ...report } = packed;
    const tensor = await (await zstn.open(blob)).tensor(name);
    const file = new File([blob], "model.zstn");
    return { before, after: loaded(), last: events.at(-1), report, digest: await digest(await file.arrayBuffer()), tensor: await digest(tensor.bytes) };
  }, MIDDLE_TENSOR);
  assert.deepEqual([got.before, got.after], [0, 1], "a page that only reads does not load what packs");
  assert.equal(got.last, 1);
  assert.equal(got.tensor, sha256(tensors[MIDDLE_TENSOR].bytes));
  const inNode = await packInNode(join(scratch, "model.safetensors"));
  assert.equal(got.digest, sha256(new Uint8Array(await inNode.blob.arrayBuffer())), "a browser and Node make the same file");
  assert.deepEqual(got.report.tensors, inNode.tensors.map((tensor) => ({ ...tensor })));
  assert.deepEqual(complaints, []);
});

inBrowser("a file is packed against a base: a File, or an address on another origin, plain or packed", async (page, complaints) => {
  const changed = tensors[MIDDLE_TENSOR].bytes.map((byte, i) => (i % 90 === 0 ? byte ^ 1 : byte));
  const tuned = join(scratch, "tuned.safetensors");
  writeFileSync(tuned, safetensors({ ...tensors, [MIDDLE_TENSOR]: { ...tensors[MIDDLE_TENSOR], bytes: changed } }));
  const inNode = await packInNode(tuned, { base: join(scratch, "model.safetensors") });
  const expected = sha256(new Uint8Array(await inNode.blob.arrayBuffer()));
  await openPage(page);
  await page.setInputFiles("input", tuned);
  const got = await page.evaluate(
    async ([url, name]) => {
      const [file] = document.querySelector("input").files;
      const plain = await (await fetch(`${url}model.safetensors`)).blob();
      const digests = [];
      for (const base of [plain, `${url}model.safetensors`, `${url}model.zstn`]) {
        const { blob } = await zstn.pack(file, { base });
        digests.push(await digest(await blob.arrayBuffer()));
      }
      const { blob } = await zstn.pack(file, { base: plain });
      const model = await zstn.open(blob, { base: `${url}model.zstn` });
      const tensor = await digest((await model.tensor(name)).bytes);
      const stop = new AbortController();
      const onProgress = ({ loadedBytes }) => loadedBytes > 1e6 && stop.abort();
      const aborted = await failure(zstn.pack(file, { base: `${url}model.zstn`, signal: stop.signal, onProgress }));
      const [one, two] = [Uint8Array.of(1, 2, 3), Uint8Array.of(1, 9, 3)];
      const same = await zstn.decompressDelta(await zstn.compressDelta(one, two), two);
      const other = await failure(zstn.decompressDelta(await zstn.compressDelta(one, two), one));
      return { digests, tensor, aborted, same: [...same], other };
    },
    [models.url, MIDDLE_TENSOR],
  );
  assert.deepEqual(got.digests, [expected, expected, expected]);
  assert.equal(got.tensor, sha256(changed));
  assert.deepEqual([got.aborted.name, got.same, got.other.code], ["AbortError", [1, 2, 3], "wrong_base"]);
  assert.deepEqual(complaints, []);
});

inBrowser("single frames, and an abort while packing", async (page) => {
  await openPage(page);
  const got = await page.evaluate(async (url) => {
    const bytes = Uint8Array.from({ length: 50_000 }, (_, i) => (i * i) >> 9);
    const frame = await zstn.compress(bytes, { dtype: "U16" });
    const back = await zstn.decompress(frame);
    const stop = new AbortController();
    const aborted = await failure(zstn.pack(`${url}model.safetensors`, { signal: stop.signal, onProgress: () => stop.abort() }));
    return { same: back.every((byte, i) => byte === bytes[i]) && back.length === bytes.length, smaller: frame.length < bytes.length, aborted };
  }, models.url);
  assert.deepEqual([got.same, got.smaller, got.aborted.name], [true, true, "AbortError"]);
});

inBrowser("in a worker, tensors are decoded by another one; in Firefox, where starting it can stop the first, on its own thread", async (page) => {
  await page.goto(site.url);
  const url = new URL("model.zstn", models.url).href;
  const { started, length } = await page.evaluate(
    (work) =>
      new Promise((resolve, reject) => {
        const worker = new Worker("/worker.js", { type: "module" });
        worker.onmessage = ({ data }) => resolve(data);
        worker.onerror = ({ message }) => reject(new Error(message));
        worker.postMessage(work);
      }),
    [url, MIDDLE_TENSOR],
  );
  assert.equal(length, tensors[MIDDLE_TENSOR].bytes.length);
  assert.equal(started > 0, browserName !== "firefox", `${started} started`);
});
