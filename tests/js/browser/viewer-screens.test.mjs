/**
 * Every screen of the viewer in both colour schemes and at five widths: axe finds nothing, nothing is cut off, and the
 * content security policy, sent as a header, blocks nothing. ZSTN_SCREENSHOTS names a folder for pictures of all screens.
 */

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pack } from "zstn";
import { browserTests } from "../support/browser.mjs";
import { safetensors } from "../support/checkpoint.mjs";
import { isAll } from "../support/tier.mjs";
import { damagedModel, LARGE, quantisedModel, writeLarge } from "../support/viewer-models.mjs";
import { goTo, idle, serveViewer, viewerFolder } from "../support/viewer.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const TENSOR = "transformer.h.1.mlp.c_fc.weight";
const PAIR = { src: "sample-tuned.zstn", with: "sample.zstn" };

/** The route of each screen, and an element that is there once it is complete. A function brings the page to its state. */
const SCREENS = {
  welcome: [{}, ".strip.real b"],
  overview: [{ src: "models/damaged.zstn" }, ".health li"],
  treemap: [{ src: "sample.zstn", picture: "treemap" }, ".treemap"],
  "plain file": [{ src: "models/levels.safetensors" }, ".treemap"],
  matrix: [{ src: "sample.zstn", tensor: TENSOR, pin: "40,60" }, ".lens-values td"],
  vector: [{ src: "sample.zstn", tensor: "transformer.h.1.ln_1.weight" }, ".line-plot"],
  "matrix with NaN": [{ src: "models/damaged.safetensors", tensor: "model.layers.2.q.weight" }, ".legend .non-finite"],
  sample: [{ src: "models/large.safetensors", tensor: LARGE.name }, ".sampled .notice"],
  quantised: [{ src: "models/levels.safetensors", tensor: "real.weight" }, ".levels"],
  layers: [{ src: "sample.zstn", tensor: TENSOR }, ".heatmap", (page) => showLayers(page)],
  changes: [PAIR, ".changes"],
  difference: [{ ...PAIR, tensor: TENSOR }, "table.values td"],
  "side by side": [{ ...PAIR, tensor: TENSOR, mode: "side" }, ".side:nth-child(2) table.values td"],
  pack: [{ view: "pack" }, ".pack h1"],
  packed: [{ view: "pack" }, ".pack h1", (page) => packOne(page)],
  "missing file": [{ src: "nothing.zstn" }, '[role="alert"]'],
  "missing tensor": [{ src: "sample.zstn", tensor: "nothing" }, '[role="alert"]'],
  menus: [{ src: "sample.zstn" }, ".cell-grid", (page) => page.locator("#token-menu summary").click()],
  search: [{ src: "sample.zstn", q: "mlp" }, ".cell-grid"],
  keys: [{ src: "sample.zstn" }, ".cell-grid", (page) => page.keyboard.press("?")],
  about: [{}, ".strip.real b", (page) => page.locator('[data-go="about"]').click()],
  embedded: [{ embed: "", src: "sample.zstn" }, ".cell-grid"],
};
const WIDTHS = [320, 375, 768, 1440, 2560];

const folder = viewerFolder();
const models = join(folder, "models");
const policy = /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(readFileSync(join(folder, "index.html"), "utf8"))[1].replaceAll("&#39;", "'");
let server;

const { inBrowser } = browserTests({
  ready: async () => {
    const damaged = safetensors(damagedModel());
    writeFileSync(join(models, "damaged.safetensors"), damaged);
    const { blob } = await pack(damaged);
    writeFileSync(join(models, "damaged.zstn"), new Uint8Array(await blob.arrayBuffer()));
    writeFileSync(join(models, "levels.safetensors"), quantisedModel());
    await writeLarge(join(models, "large.safetensors"));
    server = await serveViewer(folder, undefined, { "content-security-policy": `${policy}; frame-ancestors 'none'` });
  },
  done: () => server?.stop(),
});

async function showLayers(page) {
  await page.getByRole("button", { name: /layers/i }).first().click();
  await page.locator(".multiple").first().waitFor();
}

async function packOne(page) {
  await page.locator("#pack-file").setInputFiles(join(models, "levels.safetensors"));
  await page.getByRole("button", { name: /^Save/ }).waitFor();
}

async function show(page, name) {
  const [route, there, act] = SCREENS[name];
  await goTo(page, server, route);
  await page.locator(there).first().waitFor();
  await idle(page);
  await act?.(page);
  await idle(page);
}

/** Returns the violations that axe finds, with the elements. */
async function violations(page) {
  await page.evaluate(AXE);
  return page.evaluate(async () => {
    const { violations: found } = await axe.run(document, { resultTypes: ["violations"] });
    return found.flatMap(({ id, nodes }) => nodes.map(({ target, any, all, none }) => `${id}: ${target} (${[...any, ...all, ...none].map(({ message }) => message).join("; ")})`));
  });
}

/** Returns the elements whose contents are cut off, without an ellipsis and a title, and those that leave the page. */
const cutOff = (page) =>
  page.evaluate(() => {
    const described = (node) => `${node.tagName.toLowerCase()}${node.id && `#${node.id}`}.${[...node.classList].join(".")} "${node.textContent.trim().slice(0, 60)}"`;
    const { clientWidth, scrollWidth } = document.documentElement;
    const far = [...document.querySelectorAll("body *")].filter((node) => node.checkVisibility() && !node.closest(".scroll *, pre *") && node.getBoundingClientRect().right > clientWidth + 0.5);
    const found = scrollWidth > clientWidth ? [`the page is ${scrollWidth} wide in ${clientWidth}: ${far.map(described)}`] : [];
    for (const node of document.querySelectorAll("body *")) {
      const style = getComputedStyle(node);
      if (!node.checkVisibility() || node.closest(".unseen") || node.clientWidth === 0 || node instanceof HTMLCanvasElement || node instanceof HTMLInputElement) continue;
      const isHidden = [style.overflowX, style.overflowY].some((value) => value === "hidden" || value === "clip");
      const isWide = node.scrollWidth > node.clientWidth + 1;
      const isTitled = style.textOverflow === "ellipsis" && node.closest("[title]") !== null;
      if (isHidden && isWide && !isTitled) found.push(`${described(node)}: ${node.scrollWidth} in ${node.clientWidth}`);
      if (isHidden && style.overflowY !== "auto" && style.overflowY !== "scroll" && node.scrollHeight > node.clientHeight + 2) found.push(`${described(node)}: ${node.scrollHeight} high in ${node.clientHeight}`);
    }
    return found;
  });

const shots = process.env.ZSTN_SCREENSHOTS;
const onlyInAll = !isAll && "only in `cargo xtask test --all`";

for (const colorScheme of ["light", "dark"]) {
  for (const name of Object.keys(SCREENS)) {
    inBrowser(
      `${name}, ${colorScheme}: axe finds nothing, nothing is cut off, and the policy blocks nothing`,
      async (page, complaints) => {
        await page.setViewportSize({ width: 1440, height: 900 });
        await show(page, name);
        if (shots) await page.screenshot({ path: join(shots, `${name.replaceAll(" ", "-")}-${colorScheme}.png`), fullPage: true });
        const found = await violations(page);
        if (colorScheme === "light") {
          for (const width of WIDTHS) {
            await page.setViewportSize({ width, height: 900 });
            // Pictures are drawn again in the next frames.
            await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
            found.push(...(await cutOff(page)).map((text) => `at ${width}: ${text}`));
          }
        }
        // The browser itself logs a failed request.
        assert.deepEqual([...found, ...complaints.filter((text) => !/status of 404/.test(text))], []);
      },
      { colorScheme, skip: colorScheme === "dark" && onlyInAll },
    );
    inBrowser(
      `${name}, ${colorScheme}, on a phone: axe finds nothing`,
      async (page) => {
        await show(page, name);
        if (shots) await page.screenshot({ path: join(shots, `${name.replaceAll(" ", "-")}-${colorScheme}-phone.png`), fullPage: true });
        assert.deepEqual([...(await violations(page)), ...(await cutOff(page))], []);
      },
      { colorScheme, viewport: { width: 375, height: 740 }, isMobile: true, hasTouch: true, skip: onlyInAll },
    );
  }
}
