/** The download of a page that reads: the package, bundled and minified, and the module, both after brotli. `npm run size` prints it. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants } from "node:zlib";
import { build } from "esbuild";

/** Budgets in bytes: the current sizes, rounded up. The goal is 120 kB for both together. */
const BUDGET = { code: 19_000, module: 160_000 };

const root = fileURLToPath(new URL("../../../", import.meta.url));

const brotliBytes = (bytes) => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_LGWIN]: 24 } }).length;

/** Returns the code that a page with `open` loads at once: the entry and its static imports. */
async function codeAtOnce() {
  const { outputFiles, metafile } = await build({
    stdin: { contents: 'import { open } from "zstn"; globalThis.open = open;', resolveDir: root },
    bundle: true, minify: true, splitting: true, format: "esm", platform: "browser", outdir: "out", write: false, metafile: true, absWorkingDir: root,
  });
  const wanted = new Set();
  const visit = (path) => {
    if (wanted.has(path)) return;
    wanted.add(path);
    for (const { path: imported, kind } of metafile.outputs[path].imports) if (kind === "import-statement") visit(imported);
  };
  visit(Object.keys(metafile.outputs).find((path) => metafile.outputs[path].entryPoint === "<stdin>"));
  return outputFiles.filter(({ path }) => [...wanted].some((name) => path.replaceAll("\\", "/").endsWith(name))).map(({ contents }) => contents);
}

test("code and module to read with are within their budgets", async (t) => {
  const code = (await codeAtOnce()).reduce((sum, contents) => sum + brotliBytes(contents), 0);
  const module = brotliBytes(readFileSync(`${root}wasm/dist/core/zstn_wasm_bg.wasm`));
  const kB = (bytes) => `${(bytes / 1000).toFixed(1)} kB`;
  t.diagnostic(`after brotli: ${kB(code)} of code + ${kB(module)} of WebAssembly = ${kB(code + module)}`);
  assert.ok(code > 1000 && code <= BUDGET.code, `${code} bytes of code`);
  assert.ok(module > 1000 && module <= BUDGET.module, `${module} bytes of WebAssembly`);
});
