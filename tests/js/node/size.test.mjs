/**
 * The download size of a page that reads a model: the package, bundled and minified as Vite does it, and the module,
 * after brotli. `npm run size` prints the table.
 *
 * The budgets only go down. A change that makes the download smaller lowers its number here, so that the next change
 * cannot lose the gain unnoticed. No budget is ever raised.
 */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { brotliCompressSync, constants } from "node:zlib";
import * as esbuild from "esbuild";
import { rolldown } from "rolldown";
import { pack } from "zstn";
import { safetensors } from "../support/checkpoint.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { onlyInAll } from "../support/tier.mjs";

/** The maximum sizes after brotli, in bytes, at most one percent above the current sizes. The goals of the first three are 22 000, 30 000 and 75 000. */
const BUDGETS = {
  "plain safetensors: code": 18_700,
  "list .zstn: code": 28_900,
  "read .zstn: code and module": 88_500,
  "readToGpu: code, in addition": 7_200,
  "readToGpu: module, in addition": 47_300,
};

/** The largest gap between a size and its budget, as a fraction of the budget. Beyond it, the budget has to be lowered. */
const SLACK = 0.01;

const root = fileURLToPath(new URL("../../../", import.meta.url));
const scratch = scratchFolder();

const brotliBytes = (bytes) => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_LGWIN]: 24 } }).length;
const moduleBytes = (name) => brotliBytes(readFileSync(`${root}wasm/dist/core/${name}_bg.wasm`));

/** Returns the chunks of a bundle of this code, by name. */
async function bundled(code) {
  const entry = { name: "entry", resolveId: (id) => (id === "entry" ? id : undefined), load: (id) => (id === "entry" ? code : undefined) };
  const bundle = await rolldown({ input: "entry", cwd: root, platform: "browser", plugins: [entry] });
  // Hashes in file names would change the sizes by dozens of bytes with every build of a module.
  const { output } = await bundle.generate({ format: "esm", minify: true, chunkFileNames: "[name].js", assetFileNames: "[name][extname]" });
  await bundle.close();
  return new Map(output.filter(({ type }) => type === "chunk").map((chunk) => [chunk.fileName, chunk]));
}

/** The chunks of a bundle of `open`, by name. */
let chunks;

before(async () => {
  chunks = await bundled('import { open } from "zstn"; globalThis.open = open;');
});

test("an import of one error class contains that class alone", async () => {
  const code = 'import { HttpError } from "zstn"; globalThis.isHttpError = (error) => error instanceof HttpError;';
  const [[, { code: byRolldown }], ...others] = await bundled(code);
  assert.deepEqual(others, []);
  const { outputFiles } = await esbuild.build({ stdin: { contents: code, resolveDir: root }, bundle: true, minify: true, format: "esm", splitting: true, outdir: scratch, write: false });
  const byEsbuild = outputFiles.find(({ path }) => path.endsWith("stdin.js")).text;
  for (const text of [byRolldown, byEsbuild]) assert.ok(brotliBytes(text) < 200, `${brotliBytes(text)} bytes: ${text.slice(0, 500)}`);
});

/** Returns the names of the chunks that are loaded with a chunk: itself and its static imports. */
function chunksOf(name, wanted = new Set()) {
  if (wanted.has(name)) return wanted;
  wanted.add(name);
  for (const imported of chunks.get(name).imports) chunksOf(imported, wanted);
  return wanted;
}

const entry = () => [...chunks.values()].find(({ isEntry }) => isEntry).fileName;
const coreFiles = () => [...chunks.values()].find(({ facadeModuleId }) => facadeModuleId?.endsWith("core-files.js")).fileName;
/** Returns the names of the chunks that `readToGpu` loads, except for those at once and for packed files. */
function gpuChunks() {
  const ends = ["gpu/read-to-gpu.js", "core/zstn_gpu.js"];
  const names = [...chunks.values()].filter(({ facadeModuleId }) => ends.some((end) => facadeModuleId?.endsWith(end))).map(({ fileName }) => fileName);
  const others = new Set([...chunksOf(entry()), ...chunksOf(coreFiles())]);
  return new Set(names.flatMap((name) => [...chunksOf(name)]).filter((name) => !others.has(name)));
}
const codeBytes = (names) => [...names].reduce((sum, name) => sum + brotliBytes(chunks.get(name).code), 0);

function checkBudget(what, bytes) {
  const budget = BUDGETS[what];
  assert.ok(bytes > 1000 && bytes <= budget, `${what}: ${bytes} bytes after brotli are over the budget of ${budget}. Make it smaller: budgets are not raised.`);
  assert.ok(bytes >= budget * (1 - SLACK), `${what}: ${bytes} bytes after brotli are well below the budget of ${budget}. Lower it to ${Math.ceil(bytes / 100) * 100}.`);
}

test("what is loaded at once reads plain safetensors by itself, without WebAssembly", async () => {
  const folder = join(scratch, "at-once");
  mkdirSync(folder);
  for (const name of chunksOf(entry())) writeFileSync(join(folder, name), chunks.get(name).code);
  const file = safetensors({ w: { dtype: "U8", shape: [2, 2], bytes: Uint8Array.of(1, 2, 3, 4) } });
  // The folder does not contain the other chunks.
  const script = `
    delete globalThis.WebAssembly;
    await import(${JSON.stringify(pathToFileURL(join(folder, entry())).href)});
    const model = await open(new Blob([Buffer.from("${file.toString("base64")}", "base64")]));
    const rows = await model.tensor("w", { rows: [1, 2] });
    console.log([...model.tensors.keys(), ...(await model.tensor("w")).data, ...rows.data].join());`;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", script]);
  assert.equal(stdout.trim(), "w,1,2,3,4,3,4");
});

test("the code for plain files is within its budget, and the budget follows it down", () => {
  checkBudget("plain safetensors: code", codeBytes(chunksOf(entry())));
});

test("a .zstn file is listed without WebAssembly", async () => {
  const folder = join(scratch, "listed");
  mkdirSync(folder);
  for (const name of [...chunksOf(entry()), ...chunksOf(coreFiles())]) writeFileSync(join(folder, name), chunks.get(name).code);
  const { blob } = await pack(new Blob([safetensors({ w: { dtype: "U8", shape: [2, 2], bytes: Uint8Array.of(1, 2, 3, 4) } })]));
  writeFileSync(join(folder, "w.zstn"), await blob.bytes());
  // The folder contains no other chunk.
  const script = `
    import { openAsBlob } from "node:fs";
    delete globalThis.WebAssembly;
    await import(${JSON.stringify(pathToFileURL(join(folder, entry())).href)});
    const model = await open(await openAsBlob(${JSON.stringify(join(folder, "w.zstn"))}));
    const { dtype, shape } = model.tensors.get("w");
    console.log(model.kind, dtype, shape.join(), model.originalSize, model.asSafetensorsBlob().size);`;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", script]);
  assert.match(stdout, /^zstn U8 2,2 (\d+) \1\n$/);
});

test("the code that lists .zstn files is within its budget, and the budget follows it down", () => {
  checkBudget("list .zstn: code", codeBytes(new Set([...chunksOf(entry()), ...chunksOf(coreFiles())])));
});

test("the code for GPUs is within its budget, and the budget follows it down", () => {
  checkBudget("readToGpu: code, in addition", codeBytes(gpuChunks()));
});

test("modules are within their budget, and the budget follows them down", { skip: onlyInAll }, async (t) => {
  const reader = await WebAssembly.compile(readFileSync(`${root}wasm/dist/core/zstn_wasm_bg.wasm`));
  assert.equal(WebAssembly.Module.customSections(reader, "name").length, 0, "wasm/dist holds modules for tests: `cargo xtask wasm` builds those that are published");
  const atOnce = chunksOf(entry());
  const later = [...chunksOf(coreFiles())].filter((name) => !atOnce.has(name));
  const sizes = { atOnce: codeBytes(atOnce), later: codeBytes(later), reader: moduleBytes("zstn_wasm"), formats: moduleBytes("zstn_formats"), coder: moduleBytes("zstn_coder"), gpu: moduleBytes("zstn_gpu") };
  const zstn = sizes.atOnce + sizes.later + sizes.reader;
  const rows = [
    ["list and read plain safetensors", sizes.atOnce, "code at once"],
    ["list .zstn", sizes.atOnce + sizes.later, `code at once, and ${sizes.later} of code when a packed file is met`],
    ["read .zstn", zstn, `the same, and ${sizes.reader} of WebAssembly with the first tensor`],
    ["other formats, in addition", sizes.formats, "a module with all formats, instead of the reader's"],
    ["packing, in addition", sizes.coder, "the module that packs"],
    ["decoding on a GPU, in addition", sizes.gpu, `a module that makes lists for shaders, and ${codeBytes(gpuChunks())} of code`],
  ];
  for (const [what, bytes, detail] of rows) t.diagnostic(`${what.padEnd(32)} ${String(bytes).padStart(7)} bytes   ${detail}`);
  checkBudget("read .zstn: code and module", zstn);
  checkBudget("readToGpu: module, in addition", sizes.gpu);
});
