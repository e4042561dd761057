/** The viewer in WebKitGTK in a POSIX locale, where `navigator.language` is "C", which is not a language tag. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { serveViewer, viewerFolder } from "../js/support/viewer.mjs";
import { startWebkit, withoutWebkit } from "./support/webkit.mjs";

const skip = withoutWebkit();
const folder = viewerFolder();
let [server, browser] = [];

before(async () => {
  if (skip) return;
  server = await serveViewer(folder);
  browser = await startWebkit({ lang: "C.UTF-8" });
});

after(async () => {
  await browser?.stop();
  await server?.stop();
});

test("a link to a tensor shows its figures and draws its charts", { skip, timeout: 60_000 }, async () => {
  await browser.go(`${server.url}?src=sample.zstn&tensor=transformer.h.1.mlp.c_fc.weight`);
  const seen = await browser.until(`
    const canvas = document.querySelector(".chart canvas");
    const figures = document.querySelector(".statistics");
    return canvas && figures ? { language: navigator.language, width: canvas.width, figures: figures.textContent, rows: document.querySelectorAll(".tree .row").length } : null;
  `);
  assert.ok(seen.width > 0 && seen.rows > 5 && /min/i.test(seen.figures), JSON.stringify(seen));
});

test("the page says hello without a model", { skip, timeout: 60_000 }, async () => {
  await browser.go(server.url);
  assert.match(await browser.until(`return document.querySelector("#welcome h1")?.textContent ?? null`), /\w+/);
});
