/** The viewer under test: a server with the page and models, and functions that find elements. */

import { cpSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { browserName } from "./browser.mjs";
import { scratchFolder } from "./scratch.mjs";
import { answerRange, startServer } from "./server.mjs";

const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm", ".svg": "image/svg+xml", ".json": "application/json" };

/**
 * Creates a folder with the built page, to which tests add models. Without `offline`, the page installs no service
 * worker, whose requests would be counted.
 */
export function viewerFolder({ offline = false } = {}) {
  const folder = scratchFolder();
  cpSync(fileURLToPath(new URL("../../../web-demo/dist", import.meta.url)), folder, { recursive: true });
  mkdirSync(join(folder, "models"));
  const page = join(folder, "index.html");
  if (!offline) writeFileSync(page, readFileSync(page, "utf8").replace(" data-offline", ""));
  return folder;
}

/**
 * Serves the folder with ranges. `before(request)` may return a promise, which delays the answer, a status, which
 * rejects the request, or "abort", which closes the connection. `headers` are added to every answer. `fetched(path)`
 * returns the number of requests and bytes for a file, and `renew()` reads changed files again.
 */
export async function serveViewer(folder, before = () => undefined, headers = {}) {
  const contents = new Map();
  const asked = new Map();
  const server = await startServer(async (request, response) => {
    const url = new URL(request.url, "http://localhost");
    const path = decodeURIComponent(url.pathname) === "/" ? "/index.html" : decodeURIComponent(url.pathname);
    const verdict = await before(request, path);
    if (verdict === "abort") return response.destroy();
    if (typeof verdict === "number") return response.writeHead(verdict).end("no");
    if (typeof verdict === "object") return response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(verdict));
    const file = join(folder, normalize(path));
    if (!statSync(file, { throwIfNoEntry: false })?.isFile()) return response.writeHead(404).end();
    if (!contents.has(file)) contents.set(file, readFileSync(file));
    const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "");
    const count = asked.get(path) ?? { requests: 0, bytes: 0 };
    asked.set(path, count);
    count.requests += 1;
    if (range) count.bytes += Math.min(Number(range[2]), contents.get(file).length - 1) - Number(range[1]) + 1;
    answerRange(request, response, contents.get(file), { "content-type": TYPES[extname(path)] ?? "application/octet-stream", "accept-ranges": "bytes", ...headers, etag: `"${contents.get(file).length}"` });
  });
  return { ...server, fetched: (path) => asked.get(path) ?? { requests: 0, bytes: 0 }, forget: () => asked.clear(), renew: () => contents.clear() };
}

/** Opens the page with a route: {src, tensor, …}. */
export async function goTo(page, server, route = {}) {
  await page.goto(`${server.url}?${new URLSearchParams(route)}`);
}

export async function openModel(page, server, src, route = {}) {
  await goTo(page, server, { src, ...route });
  await page.locator(".tree .row").first().waitFor();
}

/** Opens a tensor and waits until its figures are visible. */
export async function openTensor(page, server, src, tensor, route = {}) {
  await goTo(page, server, { src, tensor, ...route });
  await page.locator(".statistics").first().waitFor();
}

/** Returns a tensor's row in the list, by the end of its name. */
export const row = (page, label) => page.getByRole("treeitem").filter({ has: page.locator(".label", { hasText: new RegExp(`${label.replaceAll(".", "\\.")}$`) }) });

/** Returns the counters of the network bar when no request is in progress. */
export async function counters(page) {
  await idle(page);
  const pairs = await page.locator("#wire data").evaluateAll((all) => all.map((data) => [data.dataset.counter, Number(data.value)]));
  return Object.fromEntries(pairs);
}

/** Waits until no activity of the page is running and its last update has arrived. Fails if that does not happen. */
export async function idle(page) {
  const running = page.locator(".running li");
  let quiet = 0;
  for (let turn = 0; turn < 400; turn++) {
    quiet = (await running.count()) === 0 ? quiet + 1 : 0;
    if (quiet === 3) return;
    await page.waitForTimeout(80);
  }
  throw new Error(`The page is still busy with: ${(await running.allInnerTexts()).join("; ") || "something that comes and goes"}.`);
}

/** Returns the exact figures of a tensor, by label. */
export async function figures(scope) {
  await scope.locator(".statistics").first().waitFor();
  const pairs = await scope.locator(".statistics").first().locator("> div").evaluateAll((all) => all.map((div) => [div.children[0].textContent, Number(div.querySelector("data").value)]));
  return Object.fromEntries(pairs);
}

/** Returns the file that the page saves after a click. */
export async function saved(page, click) {
  if (browserName === "firefox") return savedInFirefox(page, click);
  const [download] = await Promise.all([page.waitForEvent("download"), click()]);
  return { name: download.suggestedFilename(), bytes: readFileSync(await download.path()) };
}

/**
 * Does the same in Firefox, whose downloads Playwright does not see: captures the blob that the page passes to the
 * clicked link.
 */
async function savedInFirefox(page, click) {
  await page.evaluate(() => {
    const blobs = new Map();
    const { createObjectURL } = URL;
    URL.createObjectURL = (blob) => {
      const address = createObjectURL.call(URL, blob);
      blobs.set(address, blob);
      return address;
    };
    HTMLAnchorElement.prototype.click = function () {
      const reader = new FileReader();
      reader.onload = () => (globalThis.savedFile = { name: this.download, base64: reader.result.split(",")[1] });
      reader.readAsDataURL(blobs.get(this.href));
    };
    globalThis.savedFile = undefined;
  });
  await click();
  await page.waitForFunction(() => globalThis.savedFile !== undefined);
  const { name, base64 } = await page.evaluate(() => globalThis.savedFile);
  return { name, bytes: Buffer.from(base64, "base64") };
}

/** Types into a field and presses Enter, as a user does: Firefox fires no change event for a value that a script has set. */
export async function typeInto(field, text) {
  await field.fill("");
  await field.pressSequentially(text);
  await field.press("Enter");
}

/** Returns the values of a BF16 or F32 tensor. */
export function valuesOf({ bytes, dtype }) {
  const copy = Uint8Array.from(bytes).buffer;
  return dtype === "F32" ? new Float32Array(copy) : Float32Array.from(new Uint16Array(copy), (bits) => new Float32Array(Uint32Array.of(bits << 16).buffer)[0]);
}

export function truth(tensor) {
  const values = valuesOf(tensor);
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
  return { min: values.reduce((a, b) => Math.min(a, b)), max: values.reduce((a, b) => Math.max(a, b)), mean, "std. dev.": Math.sqrt(variance), norm: Math.sqrt(values.reduce((sum, value) => sum + value * value, 0)) };
}

/** Returns whether two figures are equal except for rounding. */
export const near = (a, b, tolerance = 1e-5) => Math.abs(a - b) <= tolerance * Math.max(1e-6, Math.abs(b));
