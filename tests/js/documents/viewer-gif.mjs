/**
 * Makes the animated picture of the README from the built viewer: one frame for each of its four questions.
 *
 *     cargo build -p zstn-tests --bin large-layout && cargo build -p zstn-cli && npm run build
 *     ZSTN_BIN=target/debug/zstn node tests/js/documents/viewer-gif.mjs
 *
 * The frames are screenshots of models of the tests, with the question above them. ZSTN_SCREENSHOTS names a folder for
 * the frames as PNG files.
 */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { pack } from "zstn";
import { launchBrowser } from "../support/browser.mjs";
import { safetensors } from "../support/checkpoint.mjs";
import { view } from "../support/cli.mjs";
import { encodeGif } from "../support/gif.mjs";
import { largeLayout } from "../support/large-layout.mjs";
import { scratchFolder } from "../support/scratch.mjs";
import { damagedModel, quantisedModel } from "../support/viewer-models.mjs";
import { goTo, idle, serveViewer, viewerFolder } from "../support/viewer.mjs";

const OUT = fileURLToPath(new URL("../../../docs/images/viewer.gif", import.meta.url));
const PAGE = fileURLToPath(new URL("../../../web-demo/dist", import.meta.url));
const [WIDTH, HEIGHT] = [1120, 720];
const QUESTION_HEIGHT = 56;
const SHOW_MS = 4000;

/** Returns the pixels of a frame: a screenshot below a question. The browser decodes and draws it. */
async function drawn(page, question, png) {
  const base64 = await page.evaluate(
    async ({ question, png, width, height, top }) => {
      const bitmap = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
      const context = new OffscreenCanvas(width, height).getContext("2d");
      context.fillStyle = "#1d2733";
      context.fillRect(0, 0, width, top);
      context.fillStyle = "#fff";
      context.font = "600 26px system-ui, sans-serif";
      context.textBaseline = "middle";
      context.fillText(question, 24, top / 2);
      context.drawImage(bitmap, 0, top);
      return new Promise((resolve) => {
        const reader = new FileReader();
        reader.onload = () => resolve(reader.result.split(",")[1]);
        reader.readAsDataURL(new Blob([context.getImageData(0, 0, width, height).data]));
      });
    },
    { question, png: png.toString("base64"), width: WIDTH, height: HEIGHT, top: QUESTION_HEIGHT },
  );
  return Buffer.from(base64, "base64");
}

const folder = viewerFolder();
const write = (name, bytes) => writeFileSync(join(folder, "models", name), bytes);
const { blob } = await pack(safetensors(damagedModel()));
write("damaged.zstn", new Uint8Array(await blob.arrayBuffer()));
write("quantised.safetensors", quantisedModel());
// This model of 141 GB has holes in its file instead of weights.
const layout = await largeLayout(scratchFolder(), "layout-70b.zstn");
const frames = [];
const running = [];
try {
  const server = await serveViewer(folder);
  running.push(() => server.stop());
  const large = await view(layout, PAGE);
  running.push(() => large.stop());
  const browser = await launchBrowser("chromium");
  running.push(() => browser.close());
  const page = await browser.newPage({ viewport: { width: WIDTH, height: HEIGHT - QUESTION_HEIGHT } });
  const canvas = await browser.newPage();

  /** The frames: the question, a function that opens the page, the element that completes it, and the element to scroll to. */
  const FRAMES = [
    ["What is this model?", () => page.goto(large.url), ".cell-grid", undefined],
    ["Is it healthy?", () => goTo(page, server, { src: "models/damaged.zstn" }), ".health li", ".health"],
    ["Is it really int4?", () => goTo(page, server, { src: "models/quantised.safetensors", tensor: "real.weight" }), ".levels", ".levels"],
    ["What changed?", () => goTo(page, server, { src: "sample-tuned.zstn", with: "sample.zstn" }), ".changes .cell-grid", undefined],
  ];
  for (const [question, open, last, target] of FRAMES) {
    await open();
    await page.locator(last).first().waitFor();
    await idle(page);
    if (target) await page.locator(target).first().evaluate((node) => node.scrollIntoView({ block: "center" }));
    await idle(page);
    const png = await page.screenshot();
    if (process.env.ZSTN_SCREENSHOTS) writeFileSync(join(process.env.ZSTN_SCREENSHOTS, `frame-${frames.length + 1}.png`), png);
    frames.push({ pixels: await drawn(canvas, question, png), showMs: SHOW_MS });
  }
} finally {
  for (const stop of running.reverse()) await stop();
}
const gif = encodeGif(WIDTH, HEIGHT, frames);
writeFileSync(OUT, gif);
console.log(`${gif.length} bytes: ${OUT}`);
