/**
 * Measures the start of the viewer: with a model that has the layout of Llama 7B in GGUF, and with plain files of 1,000,
 * 10,000 and 100,000 tensors. It counts the requests for the model and their bytes, the seconds until the list and until
 * the first picture, and the longest task of the page's main thread. It prints a Markdown table.
 *
 *     ZSTN_BIN=target/release/zstn node tests/js/bench/viewer-start.mjs
 *
 * The page comes from `web-demo/dist`. The file is sparse: it has 4 GB of zeros as values, which take no space on the
 * disk, so the figures are those of listing a model and of drawing its sizes. The packed file keeps the list of tensors
 * and the words of the tokenizer. The seconds are medians, with a local server.
 */

import { execFileSync } from "node:child_process";
import { closeSync, ftruncateSync, mkdtempSync, openSync, rmSync, statSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { program, view } from "../support/cli.mjs";
import { launchBrowser } from "../support/browser.mjs";
import { manyTensors } from "../support/viewer-models.mjs";
import { median } from "./rounds.mjs";

const PAGE = fileURLToPath(new URL("../../../web-demo/dist", import.meta.url));
const ROUNDS = 5;
/** The time after the first picture during which tasks are still measured, in milliseconds. */
const SETTLE_MS = 2000;
/** The numbers of blocks of ten tensors in the plain files. */
const BLOCKS = [100, 1000, 10_000];
const ALIGNMENT = 32;
const [WIDTH, HIDDEN, LAYERS, WORDS] = [4096, 11_008, 32, 32_000];

/** Element types of GGUF: their number, and the bytes of a block of so many values. */
const TYPES = { F32: { id: 0, bytes: 4, values: 1 }, Q8_0: { id: 8, bytes: 34, values: 32 }, Q4_K: { id: 12, bytes: 144, values: 256 } };

const u32 = (value) => Buffer.from(Uint32Array.of(value).buffer);
const u64 = (value) => Buffer.from(BigUint64Array.of(BigInt(value)).buffer);
const text = (value) => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);
const aligned = (bytes) => Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;

/** Returns the tensors of the model as [name, type, sizes from the innermost]. */
function tensors() {
  const matrices = [["attn_q", WIDTH, WIDTH], ["attn_k", WIDTH, WIDTH], ["attn_v", WIDTH, WIDTH], ["attn_output", WIDTH, WIDTH], ["ffn_gate", WIDTH, HIDDEN], ["ffn_up", WIDTH, HIDDEN], ["ffn_down", HIDDEN, WIDTH]];
  const layer = (number) => [
    [`blk.${number}.attn_norm.weight`, "F32", [WIDTH]],
    [`blk.${number}.ffn_norm.weight`, "F32", [WIDTH]],
    ...matrices.map(([name, ...sizes]) => [`blk.${number}.${name}.weight`, "Q4_K", sizes]),
  ];
  const layers = Array.from({ length: LAYERS }, (_, number) => layer(number)).flat();
  return [["token_embd.weight", "Q4_K", [WIDTH, WORDS]], ...layers, ["output_norm.weight", "F32", [WIDTH]], ["output.weight", "Q8_0", [WIDTH, WORDS]]];
}

/** Writes the file: a header with the words of a tokenizer, and zeros. */
function writeModel(path) {
  let offset = 0;
  const infos = tensors().map(([name, type, sizes]) => {
    const { id, bytes, values } = TYPES[type];
    const info = Buffer.concat([text(name), u32(sizes.length), ...sizes.map(u64), u32(id), u64(offset)]);
    offset += aligned((sizes.reduce((a, b) => a * b, 1) / values) * bytes);
    return info;
  });
  const words = Array.from({ length: WORDS }, (_, number) => text(`word ${number}`));
  const [TEXT, ARRAY] = [8, 9];
  const metadata = [text("general.architecture"), u32(TEXT), text("llama"), text("tokenizer.ggml.tokens"), u32(ARRAY), u32(TEXT), u64(WORDS), ...words];
  const head = Buffer.concat([Buffer.from("GGUF"), u32(3), u64(infos.length), u64(2), ...metadata, ...infos]);
  const file = openSync(path, "w");
  writeSync(file, head);
  ftruncateSync(file, aligned(head.length) + offset);
  closeSync(file);
}

/** Returns the requests, their bytes, the milliseconds until the page shows the list and a picture, and its longest task. */
async function measure(browser, path) {
  const server = await view(path, PAGE);
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 1000 } });
    await page.addInitScript(() => {
      globalThis.longestTaskMs = 0;
      new PerformanceObserver((list) => list.getEntries().forEach(({ duration }) => (globalThis.longestTaskMs = Math.max(globalThis.longestTaskMs, duration)))).observe({ entryTypes: ["longtask"] });
    });
    const start = performance.now();
    await page.goto(server.url);
    await page.locator(".tree .row").first().waitFor();
    const listMs = performance.now() - start;
    await page.locator("#stage canvas, #stage .cell").first().waitFor();
    const tookMs = performance.now() - start;
    // The picture is drawn in slices.
    await page.waitForTimeout(SETTLE_MS);
    const taskMs = await page.evaluate(() => globalThis.longestTaskMs);
    await page.close();
    // The files of the page are requested without ranges.
    const ofModel = server.requests.filter(({ range }) => range);
    return { requests: ofModel.length, bytes: ofModel.reduce((sum, { bytes }) => sum + bytes, 0), listMs, tookMs, taskMs };
  } finally {
    await server.stop();
  }
}

const folder = mkdtempSync(join(tmpdir(), "zstn-viewer-"));
try {
  const path = join(folder, "llama-7b.gguf");
  writeModel(path);
  execFileSync(program(), ["pack", path, "--quiet"], { stdio: "inherit" });
  const browser = await launchBrowser("chromium");
  const many = BLOCKS.map((blocks) => join(folder, `tensors-${10 * blocks}.safetensors`));
  BLOCKS.forEach((blocks, i) => writeFileSync(many[i], manyTensors(blocks)));
  console.log("| file | bytes | requests | bytes fetched | list, s | picture, s | longest task, ms |\n|---|--:|--:|--:|--:|--:|--:|");
  for (const name of [path, `${path}.zstn`, ...many]) {
    const rounds = [];
    for (let round = 0; round < ROUNDS; round++) rounds.push(await measure(browser, name));
    const { requests, bytes } = rounds[0];
    const [list, picture, task] = ["listMs", "tookMs", "taskMs"].map((key) => median(rounds.map((round) => round[key])));
    console.log(`| ${name.slice(folder.length + 1)} | ${statSync(name).size} | ${requests} | ${bytes} | ${(list / 1000).toFixed(2)} | ${(picture / 1000).toFixed(2)} | ${Math.round(task)} |`);
  }
  await browser.close();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
