/**
 * Installs the package into a new project, runs one scenario in every runtime, and compares the outcomes with the table
 * in docs/npm/runtimes.md.
 */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build } from "esbuild";
import { launchBrowser } from "../js/support/browser.mjs";
import { installTarball } from "../js/support/packed.mjs";
import { scratchFolder } from "../js/support/scratch.mjs";
import { hasThreads } from "../js/support/threads.mjs";
import { installed, programOf, requireInstalled, versionOf, withoutPackage } from "./support/programs.mjs";
import { serveModels, servePage, writeModels } from "./support/site.mjs";
import { cells } from "./support/table.mjs";
import { startWebkit, withoutWebkit } from "./support/webkit.mjs";

const run = promisify(execFile);
const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const reports = here("../../target/runtimes");
const folder = scratchFolder();
const project = join(folder, "project");
let [input, models, site] = [];

/**
 * The runtimes by name. `missing` is the reason why a runtime cannot be tested, or `false`; `run` returns its version
 * and its outcomes.
 */
const RUNTIMES = {
  "Node 20": program("node20", "node20/bin/node"),
  "Node 22": program("node22", "node22/bin/node"),
  "Node 24": program("node24", "node24/bin/node"),
  Deno: program("deno", ".bin/deno", "run", "--allow-net", "--allow-read", "--allow-write", "--allow-env"),
  Bun: program("bun", ".bin/bun"),
  workerd: { missing: withoutPackage("miniflare"), run: inWorkerd },
  Chromium: { missing: process.env.ZSTN_SKIP_BROWSER ? "ZSTN_SKIP_BROWSER is set" : false, run: () => inBrowser("chromium") },
  Firefox: { missing: process.env.ZSTN_SKIP_BROWSER ? "ZSTN_SKIP_BROWSER is set" : false, run: () => inBrowser("firefox") },
  WebKitGTK: { missing: withoutWebkit(), run: inWebkit },
};

function program(name, path, ...options) {
  return {
    missing: withoutPackage(name),
    async run() {
      const inputFile = `input-${name}.json`;
      writeFileSync(join(project, inputFile), JSON.stringify({ ...input, cacheFolder: join(folder, `cache-${name}`) }));
      const { stdout, stderr } = await run(programOf(path), [...options, "host.mjs", inputFile], { cwd: project, timeout: 120_000, env: { ...process.env, DENO_NO_UPDATE_CHECK: "1", NO_COLOR: "1" } });
      const line = stdout.split("\n").find((text) => text.startsWith("OUTCOMES "));
      assert.ok(line, `${stdout}\n${stderr}`);
      assert.equal(stderr, "", "nothing is written to stderr, such as a warning");
      return { version: versionOf(name), outcomes: JSON.parse(line.slice("OUTCOMES ".length)) };
    },
  };
}

/**
 * Runs the scenario in workerd. The code is bundled as by Wrangler: by esbuild with the condition `workerd`, with
 * `.wasm` files as separate modules.
 */
async function inWorkerd() {
  const out = join(folder, "workerd");
  const conditions = ["workerd", "worker", "browser"];
  await build({ entryPoints: [join(project, "worker.mjs")], outdir: out, bundle: true, format: "esm", conditions, loader: { ".wasm": "copy" }, assetNames: "[name]", outExtension: { ".js": ".mjs" }, logLevel: "error" });
  const { Miniflare } = requireInstalled("miniflare");
  const versions = {};
  // At the second date, fetch did not have the option `cache`, and MessageChannel did not exist.
  for (const compatibilityDate of ["2026-01-01", "2024-01-01"]) {
    const modulesRules = [{ type: "ESModule", include: ["**/*.mjs"] }, { type: "CompiledWasm", include: ["**/*.wasm"] }];
    const worker = new Miniflare({ modules: true, rootPath: out, modulesRoot: out, scriptPath: join(out, "worker.mjs"), modulesRules, compatibilityDate, verbose: false });
    try {
      const { cacheFolder, ...rest } = input;
      const response = await worker.dispatchFetch("http://worker/", { method: "POST", body: JSON.stringify(rest) });
      assert.equal(response.status, 200, await response.clone().text());
      versions[compatibilityDate] = await response.json();
    } finally {
      await worker.dispose();
    }
  }
  const [today, older] = Object.values(versions);
  const brief = (outcomes) => Object.fromEntries(Object.entries(outcomes).map(([name, { ok, code }]) => [name, code ?? ok]));
  assert.deepEqual(brief(older), brief(today), "an older compatibility date is no worse");
  return { version: versionOf("workerd"), outcomes: today };
}

async function inBrowser(name) {
  const browser = await launchBrowser(name);
  try {
    const page = await (await browser.newContext()).newPage();
    await page.goto(site.url);
    await page.waitForFunction("globalThis.outcomes", undefined, { timeout: 120_000 });
    return { version: browser.version(), outcomes: JSON.parse(await page.evaluate("globalThis.outcomes")) };
  } finally {
    await browser.close();
  }
}

async function inWebkit() {
  const browser = await startWebkit();
  try {
    await browser.go(site.url);
    return { version: browser.version, outcomes: JSON.parse(await browser.until("return globalThis.outcomes ?? null")) };
  } finally {
    await browser.stop();
  }
}

before(async () => {
  mkdirSync(project);
  mkdirSync(reports, { recursive: true });
  await installTarball(project);
  const models256 = await writeModels(folder);
  models = await serveModels(folder);
  input = { ...models256, packed: `${models.url}model.zstn`, plain: `${models.url}model.safetensors`, missing: `${models.url}missing.zstn`, refused: "http://127.0.0.1:9/model.zstn" };
  site = await servePage(project, input);
  for (const name of ["scenario.mjs", "hosts/host.mjs", "hosts/worker.mjs"]) copyFileSync(here(name), join(project, name.split("/").at(-1)));
});

after(async () => {
  await models?.stop();
  await site?.stop();
});

const table = cells(readFileSync(here("../../docs/npm/runtimes.md"), "utf8"));

describe("runtimes", { concurrency: 2 }, () => {
  for (const [name, { missing, run: runIn }] of Object.entries(RUNTIMES)) {
    test(name, { skip: missing, timeout: 180_000 }, async (t) => {
      const { version, outcomes } = await runIn();
      t.diagnostic(`${name}: version ${version}`);
      writeFileSync(join(reports, `${name.replaceAll(" ", "-")}.json`), `${JSON.stringify({ version, outcomes }, null, 2)}\n`);
      for (const [feature, outcome] of Object.entries(outcomes)) {
        if (feature === "decode on threads" && !hasThreads) {
          t.diagnostic("decode on threads was not tested: its module could not be built here");
          continue;
        }
        const cell = table.get(name)?.get(feature);
        assert.ok(cell, `docs/npm/runtimes.md has a cell for "${feature}" in ${name}`);
        if (outcome.ok) assert.equal(cell.works, true, `${feature} works in ${name}, and the table says otherwise`);
        else {
          assert.ok(["unsupported", "invalid_input"].includes(outcome.code), `${feature} in ${name}: ${JSON.stringify(outcome, null, 2)}`);
          assert.ok(!cell.works && cell.reason, `${feature} does not work in ${name}, and the table has no reason: ${outcome.message}`);
        }
      }
      assert.deepEqual([...table.get(name).keys()].sort(), Object.keys(outcomes).sort(), "the table has no other rows");
    });
  }
});

test("the table has these runtimes and no others", () => {
  assert.deepEqual([...table.keys()], Object.keys(RUNTIMES));
  assert.ok(installed);
});
