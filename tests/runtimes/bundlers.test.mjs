/**
 * Builds pages with bundlers that have many dependencies: Vite 6, Parcel and Next.js with webpack. The other bundlers
 * are in `tests/js/browser/bundlers.test.mjs`.
 */

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { launchBrowser } from "../js/support/browser.mjs";
import { installPacked } from "../js/support/packed.mjs";
import { scratchFolder } from "../js/support/scratch.mjs";
import { startSite } from "../js/support/server.mjs";
import { programOf, withoutPackage } from "./support/programs.mjs";
import { serveModels, writeModels } from "./support/site.mjs";

const run = promisify(execFile);
const folder = scratchFolder();
const tarball = join(folder, "tarball");
let [models, truth] = [];

/** Code that reads the large tensor in a worker, and packs. A page stores the outcome in its body. */
const app = (model) => `
import { compress, decompress, open, workerPool } from "zstn";
const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
async function outcome() {
  const pool = workerPool({ size: 1 });
  const { bytes } = await (await open(${JSON.stringify(model)}, { workers: pool })).tensor("embeddings.weight");
  const back = await decompress(await compress(bytes.slice(0, 1000)));
  return { digest: hex(await crypto.subtle.digest("SHA-256", bytes)), decoded: pool.decoded, problem: String(pool.startError), back: back.length };
}
`;
const inPage = (model) => `${app(model)}
outcome().catch((error) => ({ error: String(error), cause: String(error.cause) })).then((result) => (document.body.dataset.outcome = JSON.stringify(result)));
`;
const HTML = (script) => `<!doctype html><html lang="en"><title>app</title><link rel="icon" href="data:,"><body><script type="module" src="${script}"></script></body></html>`;
const right = () => ({ digest: truth.digests["embeddings.weight"], decoded: 1, problem: "undefined", back: 1000 });

before(async () => {
  mkdirSync(tarball);
  await installPacked(tarball);
  truth = await writeModels(folder);
  models = await serveModels(folder);
});
after(() => models?.stop());

/** Creates a project that contains this package and the given installed packages, and returns its folder. */
function project(name, files, packages) {
  const root = join(folder, name);
  mkdirSync(join(root, "node_modules"), { recursive: true });
  cpSync(join(tarball, "node_modules/zstn"), join(root, "node_modules/zstn"), { recursive: true });
  for (const each of packages) symlinkSync(programOf(each), join(root, "node_modules", each));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(root, path, ".."), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return root;
}

async function outcomeAt(url, folderOrUndefined) {
  const site = folderOrUndefined && (await startSite({ "/": folderOrUndefined }));
  const browser = await launchBrowser("chromium");
  try {
    const page = await browser.newPage();
    await page.goto(url ?? `${site.url}index.html`);
    await page.waitForSelector("body[data-outcome]", { state: "attached", timeout: 60_000 });
    return JSON.parse(await page.evaluate("document.body.dataset.outcome"));
  } finally {
    await browser.close();
    await site?.stop();
  }
}

describe("bundlers", { concurrency: 1 }, () => {
  const withoutVite = withoutPackage("vite6");

  test("Vite 6 builds a page", { skip: withoutVite, timeout: 180_000 }, async () => {
    const vite = await import(pathToFileURL(programOf("vite6/dist/node/index.js")).href);
    const root = project("vite6", { "index.html": HTML("/main.js"), "main.js": inPage(`${models.url}model.zstn`), "package.json": '{"type": "module"}' }, []);
    await vite.build({ root, configFile: false, logLevel: "error" });
    assert.deepEqual(await outcomeAt(undefined, join(root, "dist")), right());
  });

  test("Vite 6 serves a page in development: with `exclude` it works, and without it the error says so", { skip: withoutVite, timeout: 180_000 }, async () => {
    const vite = await import(pathToFileURL(programOf("vite6/dist/node/index.js")).href);
    for (const exclude of [["zstn"], []]) {
      const root = project(`vite6-dev-${exclude.length}`, { "index.html": HTML("/main.js"), "main.js": inPage(`${models.url}model.zstn`), "package.json": '{"type": "module"}' }, []);
      const server = await (await vite.createServer({ root, configFile: false, logLevel: "silent", optimizeDeps: { exclude }, server: { host: "127.0.0.1", port: 0, hmr: false, ws: false } })).listen();
      try {
        const got = await outcomeAt(server.resolvedUrls.local[0]);
        if (exclude.length > 0) assert.deepEqual(got, right());
        else assert.match(got.error, /optimizeDeps: \{ exclude: \["zstn"\] \}/);
      } finally {
        await server.close();
      }
    }
  });

  test("Parcel builds a page with its default settings", { skip: withoutPackage("parcel"), timeout: 180_000 }, async () => {
    const root = project("parcel", { "index.html": HTML("./main.js"), "main.js": inPage(`${models.url}model.zstn`), "package.json": '{"name": "app", "private": true, "type": "module"}', ".parcelrc": '{"extends": "@parcel/config-default"}', "yarn.lock": "" }, []);
    symlinkSync(programOf("@parcel"), join(root, "node_modules/@parcel"));
    const build = [programOf("parcel/lib/bin.js"), "build", "index.html", "--no-cache", "--no-autoinstall", "--no-source-maps", "--no-optimize", "--dist-dir", "dist"];
    await run(process.execPath, build, { cwd: root, timeout: 120_000 });
    assert.deepEqual(await outcomeAt(undefined, join(root, "dist")), right());
  });

  test("Next.js with webpack: a page, and a route on the server", { skip: withoutPackage("next"), timeout: 300_000 }, async () => {
    const model = `${models.url}model.zstn`;
    const files = {
      "package.json": '{"name": "app", "private": true}',
      "next.config.mjs": `export default { outputFileTracingRoot: import.meta.dirname };`,
      "app/layout.js": `export default ({ children }) => <html lang="en"><body>{children}</body></html>;`,
      "app/page.js": `"use client";\nimport { useEffect } from "react";\nexport default function Page() { useEffect(() => { import("./main.js"); }, []); return null; }`,
      "app/main.js": inPage(model),
      "app/api/route.js": `${app(model)}\nexport const dynamic = "force-dynamic";\nexport const GET = async () => Response.json(await outcome().catch((error) => ({ error: String(error), cause: String(error.cause) })));`,
    };
    const root = project("next", files, ["next", "react", "react-dom"]);
    const next = [programOf("next/dist/bin/next")];
    const env = { ...process.env, NEXT_TELEMETRY_DISABLED: "1", NODE_ENV: "production" };
    await run(process.execPath, [...next, "build", "--webpack"], { cwd: root, env, timeout: 240_000 });
    const server = spawn(process.execPath, [...next, "start", "--hostname", "127.0.0.1", "--port", "0"], { cwd: root, env, stdio: ["ignore", "pipe", "inherit"] });
    try {
      let url;
      for await (const line of createInterface({ input: server.stdout })) if ((url = /http:\/\/127\.0\.0\.1:\d+/.exec(line)?.[0])) break;
      assert.ok(url, "it says where it listens");
      const onServer = await (await fetch(`${url}/api`)).json();
      assert.equal(onServer.digest, right().digest, JSON.stringify(onServer));
      assert.deepEqual(await outcomeAt(url), right());
    } finally {
      server.kill();
      await once(server, "exit");
    }
  });
});
