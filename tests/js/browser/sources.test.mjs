/**
 * Servers and their faults, from the view of a page: CORS, redirects, versions, and the cache in the browser's own file
 * system.
 */

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { browserName, browserTests } from "../support/browser.mjs";
import { compressed, cutTo, redirect, reset, resetAfter, silence, stallAfter, startFaultServer, status, whole, wrongRange } from "../support/fault-server.mjs";
import { version } from "../support/faulty-model.mjs";
import { startSite } from "../support/server.mjs";
import { sha256 } from "../support/vectors.mjs";

const dist = fileURLToPath(new URL("../../../wasm/dist/", import.meta.url));
const PAGE = `<!doctype html><title>sources</title><link rel="icon" href="data:,"><script type="module">
  import * as zstn from "/dist/web.js";
  globalThis.zstn = zstn;
  const digest = async (bytes) => [...new Uint8Array(await crypto.subtle.digest("SHA-256", bytes))].map((b) => b.toString(16).padStart(2, "0")).join("");
  /** Opens a model, reads tensors one after the other, and returns all results. */
  globalThis.read = async (url, names, { opfs, ...options } = {}) => {
    const cache = opfs && zstn.opfsCache(opfs);
    try {
      const model = await zstn.open(url, { idleTimeoutMs: 1000, ...options, ...(cache && { cache }) });
      const digests = {};
      for (const name of names) digests[name] = await digest((await model.tensor(name)).bytes);
      await cache?.flush();
      return { digests, stats: { ...model.stats } };
    } catch ({ name, code, message }) {
      return { name, code, message };
    }
  };
</script>`;

const file = version();
let site;
const { inBrowser } = browserTests({
  ready: async () => { site = await startSite({ "/dist/": dist }, { "/": PAGE }); },
  done: () => site?.stop(),
});

async function openPage(page, url = site.url) {
  await page.goto(url);
  await page.waitForFunction("globalThis.read");
}

const read = (page, url, names, options) => page.evaluate((call) => globalThis.read(...call), [url, names, options]);

/** Runs `work` with one fault server for each of `all`, each on its own origin. */
async function against(all, work) {
  const servers = await Promise.all(all.map(({ of = file, ...options }) => startFaultServer(of, options)));
  try {
    await work(...servers);
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
  }
}

const isRight = (digests, of = file) => {
  for (const [name, digest] of Object.entries(digests)) assert.equal(digest, sha256(of.tensors[name].bytes), name);
};

inBrowser("faults that pass cost time alone", async (page) => {
  await openPage(page);
  const faults = { reset, "reset in the body": resetAfter(1000), "cut short": cutTo(1000), silence, "a halt in the body": stallAfter(1000), "429": status(429), "503": status(503, { "retry-after": "0" }) };
  for (const [what, fault] of Object.entries(faults)) {
    await against([{ cors: "open", faults: [fault] }], async (server) => {
      const got = await read(page, server.url, ["a"], {});
      assert.ok(got.digests, `${what}: ${got.message}`);
      isRight(got.digests);
      assert.ok(got.stats.retries === 1 || fault === reset, `${what}: ${got.stats.retries} retries`); // browsers retry some requests themselves
    });
  }
});

inBrowser("faults that stay are errors at once", async (page) => {
  await openPage(page);
  for (const [fault, code] of [[status(404), "http"], [wrongRange, "range_not_supported"]]) {
    await against([{ cors: "open", always: fault }], async (server) => {
      assert.equal((await read(page, server.url, ["a"])).code, code);
      assert.equal(server.log.length, 1);
    });
  }
});

inBrowser("compression is refused, by the browser itself where it had asked for none", async (page) => {
  await openPage(page);
  const all = (request, response, state) => (delete request.headers.range, compressed(request, response, state));
  for (const cors of ["open", "hidden"]) {
    for (const fault of [compressed, all]) {
      await against([{ cors, always: fault }], async (server) => {
        const got = await read(page, server.url, ["a"], { retries: 0, idleTimeoutMs: 10_000 });
        // Firefox decompresses the unrequested encoding and hides it from the page, so the length differs.
        if (browserName === "firefox" && got.code === "truncated") return;
        assert.ok(["network", "content_encoding"].includes(got.code), JSON.stringify(got));
        assert.match(got.message, /compress/);
      });
    }
  }
});

inBrowser("a hub that redirects to signed addresses of another origin gets the token, the other origin does not", async (page) => {
  await openPage(page);
  // Firefox 153 removes the header, but still sends a preflight request to the other origin, which the store has to answer.
  const asksBeforehand = browserName === "firefox";
  await against([{ cors: "token" }, { cors: asksBeforehand ? "token" : "hidden" }], async (hub, cdn) => {
    hub.always = redirect(cdn.origin);
    const got = await read(page, hub.url, ["a", "d"], { token: "t0ken" });
    assert.ok(got.digests, got.message);
    isRight(got.digests);
    const asked = hub.log.filter(({ method }) => method === "GET");
    assert.equal(asked.length, 3);
    assert.ok(asked.every(({ headers }) => headers.authorization === "Bearer t0ken"));
    assert.ok(cdn.log.every(({ headers, path }) => headers.authorization === undefined && path.startsWith("/signed/")));
    assert.equal(cdn.log.some(({ method }) => method === "OPTIONS"), asksBeforehand, "no question beforehand, which a store would refuse");
  });
});

inBrowser("from another origin nothing is sent that would cost a preflight, and a changed file is noticed by what is visible", async (page) => {
  await openPage(page);
  for (const cors of ["open", "hidden"]) {
    await against([{ cors, of: version() }], async (server) => {
      const got = await read(page, server.url, ["a"]);
      isRight(got.digests);
      assert.ok(server.log.every(({ method, headers }) => method !== "OPTIONS" && headers["if-range"] === undefined));
      const changed = page.evaluate(async (url) => {
        const model = await zstn.open(url);
        globalThis.opened = true;
        while (!globalThis.changed) await new Promise((resolve) => setTimeout(resolve, 10));
        globalThis.opened = globalThis.changed = false;
        return model.tensor("a").then(() => "no error", ({ code }) => code);
      }, server.url);
      await page.waitForFunction("globalThis.opened");
      server.file = version(50); // of the same length
      await page.evaluate("globalThis.changed = true");
      assert.equal(await changed, "changed", cors === "open" ? "by its ETag" : "by its Last-Modified");
    });
  }
});

inBrowser("on the page's own origin If-Range is sent, unless the server redirects elsewhere", async (page) => {
  const ofTheSite = async (request, response) => {
    const answer = await fetch(new URL(request.url, site.url));
    response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") });
    response.end(Buffer.from(await answer.arrayBuffer()));
  };
  await against([{}, { cors: "hidden" }], async (own, cdn) => {
    const model = (request, response, state) => (/^\/(dist|$)/.test(request.url) ? ofTheSite(request, response) : own.elsewhere?.(request, response, state) ?? cutTo(Infinity)(request, response, state));
    own.always = model;
    await openPage(page, `${own.origin}/`);
    isRight((await read(page, own.url, ["a"])).digests);
    const ranges = own.log.filter(({ path }) => path === "/model");
    assert.deepEqual(ranges.map(({ headers }) => headers["if-range"]), [undefined, file.etag]);

    own.elsewhere = (...call) => (redirect(cdn.origin)(...call), true);
    isRight((await read(page, own.url, ["a"])).digests);
    assert.deepEqual(cdn.log.map(({ method, headers }) => [method, headers["if-range"]]), [["GET", undefined], ["HEAD", undefined], ["GET", undefined]]);
  });
});

inBrowser("a server without ranges: a small file is read whole, a larger one refused", async (page) => {
  await openPage(page);
  for (const cors of ["open", "hidden"]) {
    await against([{ cors, always: whole }], async (server) => {
      const got = await read(page, server.url, ["a", "b", "d"]);
      isRight(got.digests);
      assert.equal(got.stats.requests, 1);
      assert.equal((await read(page, server.url, ["a"], { maxFullDownloadBytes: 1000 })).code, "range_not_supported");
    });
  }
});

inBrowser("reads asked for together are joined, and one that is aborted leaves the other alone", async (page) => {
  await openPage(page);
  await against([{ cors: "open" }], async (server) => {
    const got = await page.evaluate(async (url) => {
      const model = await zstn.open(url);
      const stop = new AbortController();
      const reads = [model.tensor("b", { signal: stop.signal }), model.tensor("c")];
      await Promise.resolve();
      stop.abort();
      const [first, second] = await Promise.allSettled(reads);
      await Promise.all([model.tensor("b"), model.tensor("c")]);
      return { first: first.reason?.name, second: [...second.value.bytes], requests: model.stats.requests };
    }, server.url);
    assert.deepEqual([got.first, got.requests], ["AbortError", 3]);
    assert.deepEqual(got.second, [...file.tensors.c.bytes]);
  });
});

inBrowser("the cache in the private file system: found by the next page, by version, bounded, and damage does not matter", async (page, complaints) => {
  await openPage(page);
  await against([{ cors: "open", of: version() }], async (server) => {
    const opfs = {};
    const first = await read(page, server.url, ["a", "d"], { opfs });
    assert.deepEqual([first.stats.requests, first.stats.cacheHits], [3, 0]);
    await openPage(page); // a new page
    const second = await read(page, server.url, ["a", "d"], { opfs });
    isRight(second.digests);
    assert.deepEqual([second.stats.requests, second.stats.cacheHits], [1, 2]);

    const sizes = await page.evaluate(async () => {
      const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle("zstn-cache");
      const sizes = [];
      for await (const handle of folder.values()) {
        const file = await handle.getFile();
        sizes.push(file.size);
        const stream = await handle.createWritable({ keepExistingData: true });
        await stream.write({ type: "write", position: file.size - 5, data: new Uint8Array([1, 2, 3]) });
        await stream.close();
      }
      return sizes;
    });
    assert.equal(sizes.length, 2);
    const third = await read(page, server.url, ["a", "d"], { opfs });
    isRight(third.digests);
    assert.equal(third.stats.cacheHits, 0, "damaged entries are none");

    server.file = version(50);
    const fourth = await read(page, server.url, ["a", "d"], { opfs: { maxBytes: 2_500_000 } });
    isRight(fourth.digests, version(50));
    assert.equal(fourth.stats.cacheHits, 0, "another version");
    const left = await page.evaluate(async () => {
      const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle("zstn-cache");
      let bytes = 0;
      for await (const handle of folder.values()) bytes += (await handle.getFile()).size;
      await zstn.opfsCache().clear();
      const names = [];
      for await (const name of folder.keys()) names.push(name);
      return { bytes, names };
    });
    assert.ok(left.bytes > 0 && left.bytes <= 2_500_000, `${left.bytes} bytes`);
    assert.deepEqual(left.names, []);
  });
  assert.deepEqual(complaints, []);
});

inBrowser("a file whose ETag the page may not see is not kept", async (page) => {
  await openPage(page);
  await against([{ cors: "hidden" }], async (server) => {
    for (let run = 0; run < 2; run++) {
      const { stats } = await read(page, server.url, ["a"], { opfs: { folder: "unseen" } });
      assert.equal(stats.cacheHits, 0);
    }
  });
});

inBrowser("a private file system that takes nothing: reads go on, the cache says why, and nothing empty is left in it", async (page) => {
  await openPage(page);
  await against([{ cors: "open" }], async (server) => {
    const got = await page.evaluate(async (url) => {
      FileSystemFileHandle.prototype.createWritable = () => Promise.reject(new DOMException("no room", "QuotaExceededError"));
      const cache = zstn.opfsCache({ folder: "refusing" });
      const before = cache.storeError;
      const model = await zstn.open(url, { cache });
      const { bytes: { byteLength } } = await model.tensor("a");
      await cache.flush();
      const entries = [];
      const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle("refusing");
      for await (const name of folder.keys()) entries.push(name);
      return { before, after: String(cache.storeError), byteLength, entries };
    }, server.url);
    assert.deepEqual(got, { before: undefined, after: "QuotaExceededError: no room", byteLength: file.tensors.a.bytes.length, entries: [] });
  });
});

inBrowser("a private file system that pages cannot write to, or that is missing, is refused by name", async (page) => {
  await openPage(page);
  const [unwritable, missing] = await page.evaluate(() => {
    const failure = () => {
      try {
        zstn.opfsCache();
      } catch ({ name, code, message }) {
        return { name, code, message };
      }
    };
    delete FileSystemFileHandle.prototype.createWritable;
    const unwritable = failure();
    Object.defineProperty(navigator, "storage", { value: undefined });
    return [unwritable, failure()];
  });
  assert.deepEqual([unwritable.name, unwritable.code], ["UnsupportedError", "unsupported"]);
  assert.match(unwritable.message, /createWritable is missing/);
  assert.equal(missing.name, "UnsupportedError");
  assert.doesNotMatch(missing.message, /https/, "the page is on localhost, so that is not the reason");
});
