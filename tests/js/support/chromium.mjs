/** The system's Chromium, driven by playwright. */

import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

const ARGUMENTS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

const skip = process.env.ZSTN_SKIP_BROWSER ? "ZSTN_SKIP_BROWSER is set" : false;

/** Starts it. */
export const launchChromium = () => chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ARGUMENTS });

/** The tests of a file that need a browser: `ready` and `done` run around them, `inBrowser` is one of them. */
export function browserTests({ ready = async () => {}, done = async () => {} } = {}) {
  let browser;
  if (!skip) {
    before(async () => {
      browser = await launchChromium();
      await ready();
    });
    after(async () => {
      await browser?.close();
      await done();
    });
  }
  const inBrowser = (name, work, { skip: why = false, ...options } = {}) =>
    test(name, { skip: skip || why, timeout: 40_000 }, async () => {
      const { page, complaints, close } = await newPage(browser, options);
      try {
        await work(page, complaints);
      } finally {
        await close();
      }
    });
  return { inBrowser };
}

/** A page whose errors and warnings are collected in `complaints`. */
async function newPage(browser, options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  const complaints = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  return { page, complaints, close: () => context.close() };
}
