/**
 * Builds projects that install the packed package, each with another bundler and its default settings, and tests their
 * pages.
 */

import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import * as esbuild from "esbuild";
import { build as viteBuild } from "vite";
import webpack from "webpack";
import { browserTests } from "../support/browser.mjs";
import { serve } from "../support/cli.mjs";
import { installPacked } from "../support/packed.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { goodContainers, vectorPath } from "../support/vectors.mjs";

const container = goodContainers.find(({ name }) => name === "all_dtypes");

const APP = `
import { compress, decompress, open, workerPool } from "zstn";
const model = await open("model.zstn");
const tensor = await model.tensor("t.f32");
document.body.dataset.sum = String(tensor.toFloat32().reduce((sum, value) => sum + value, 0));
globalThis.backAndForth = async () => (await decompress(await compress(tensor.bytes, { dtype: "F32" }))).length === tensor.bytes.length;
globalThis.byWorker = async () => {
  const pool = workerPool({ size: 1, minBytes: 0 });
  const same = await (await open("model.zstn", { workers: pool })).tensor("t.f32");
  pool.close();
  return { decoded: pool.decoded, same: same.data.every((value, i) => value === tensor.data[i]), startError: String(pool.startError) };
};
document.body.dataset.tensors = String(model.tensors.size);
`;

/** esbuild does not copy files in `new URL()`, so the modules are imported, and the worker is an entry point. */
const NAMED = `
import { configure } from "zstn";
import reader from "zstn/zstn_wasm_bg.wasm";
import coder from "zstn/zstn_coder_bg.wasm";
configure({
  wasm: { reader: new URL(reader, import.meta.url), coder: new URL(coder, import.meta.url) },
  createWorker: () => new Worker(new URL("./worker.js", import.meta.url), { type: "module" }),
});
`;

const html = (script) => `<!doctype html><title>app</title><link rel="icon" href="data:,"><body><script type="module" src="${script}"></script>`;

const BUNDLERS = {
  Vite: {
    app: APP,
    build: async (root) => {
      writeFileSync(join(root, "index.html"), html("/src/main.js"));
      await viteBuild({ root, configFile: false, logLevel: "warn" });
    },
  },
  "webpack 5": {
    app: APP,
    build: async (root) => {
      const bundle = promisify(webpack);
      const stats = await bundle({ context: root, mode: "production", entry: "./src/main.js", output: { path: join(root, "dist"), filename: "main.js" }, performance: false });
      assert.equal(stats.toString({ all: false, errors: true, warnings: true }), "");
      writeFileSync(join(root, "dist/index.html"), html("main.js"));
    },
  },
  esbuild: {
    app: NAMED + APP,
    build: async (root) => {
      const { warnings } = await esbuild.build({ entryPoints: ["main", "worker"].map((name) => join(root, `src/${name}.js`)), outdir: join(root, "dist"), bundle: true, minify: true, splitting: true, format: "esm", loader: { ".wasm": "file" }, logLevel: "silent" });
      assert.deepEqual(warnings, []);
      writeFileSync(join(root, "dist/index.html"), html("main.js"));
    },
  },
};

const scratch = scratchFolder();
const servers = {};

const { inBrowser } = browserTests({
  ready: async () => {
    for (const [name, { app, build }] of Object.entries(BUNDLERS)) {
      const project = join(scratch, name.replaceAll(" ", "-"));
      mkdirSync(project);
      await installPacked(project);
      mkdirSync(join(project, "src"));
      writeFileSync(join(project, "package.json"), '{"type": "module"}');
      writeFileSync(join(project, "src/main.js"), app);
      writeFileSync(join(project, "src/worker.js"), 'import "zstn/worker";');
      await build(project);
      copyFileSync(vectorPath("zstn", container.container.file), join(project, "dist/model.zstn"));
      servers[name] = await serve(join(project, "dist"));
    }
  },
  done: () => Promise.all(Object.values(servers).map((server) => server.stop())),
});

for (const name of Object.keys(BUNDLERS)) {
  inBrowser(`${name}: the built page finds the WebAssembly module and reads a tensor`, async (page, complaints) => {
    const server = servers[name];
    await page.goto(`${server.url}index.html`);
    await page.waitForSelector("body[data-tensors]", { state: "attached" });
    const got = await page.evaluate(() => ({ ...document.body.dataset }));
    const [begin, end] = container.tensors.find(({ name }) => name === "t.f32").data_offsets;
    const original = readFileSync(vectorPath("zstn", container.original.file));
    const data = original.subarray(8 + container.layout.header_len);
    const values = Array.from({ length: (end - begin) / 4 }, (_, i) => data.readFloatLE(begin + 4 * i));
    assert.equal(got.tensors, "22");
    assert.equal(Number(got.sum), values.reduce((sum, value) => sum + value, 0));
    assert.deepEqual(complaints, []);
    const log = await server.settled(3);
    assert.equal(log.filter(({ path }) => path.endsWith(".wasm")).length, 1, "the module is a file of its own, fetched once; what packs and what reads other formats is not");
    assert.deepEqual(await page.evaluate("globalThis.byWorker()"), { decoded: 1, same: true, startError: "undefined" });
    assert.equal(await page.evaluate("globalThis.backAndForth()"), true, "until it is used");
    assert.deepEqual(complaints, []);
  });
}
