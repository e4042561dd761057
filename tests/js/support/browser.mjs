/** A real browser, driven by Playwright: the system's Chromium, or its Firefox if ZSTN_BROWSER is "firefox". */

import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { launchFirefox } from "./firefox.mjs";
import { onlyInAll } from "./tier.mjs";

const CHROMIUM = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** The name of the browser in test results. */
export const browserName = process.env.ZSTN_BROWSER || "chromium";

const skip = process.env.ZSTN_SKIP_BROWSER ? "ZSTN_SKIP_BROWSER is set" : false;

const LAUNCH = {
  chromium: (_, args = []) => chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: [...CHROMIUM, ...args] }),
  firefox: launchFirefox,
};

/**
 * Starts the browser. `colorScheme` is for Firefox, where it applies to the whole browser; in Chromium it applies to a
 * context. `chromiumArgs` are additional arguments of Chromium.
 */
export function launchBrowser(name = browserName, colorScheme = undefined, chromiumArgs = undefined) {
  if (!Object.hasOwn(LAUNCH, name)) throw new Error(`ZSTN_BROWSER is "${name}". Known are ${Object.keys(LAUNCH).join(" and ")}.`);
  return LAUNCH[name](colorScheme, chromiumArgs);
}

/** The reason to skip a test that needs a feature of Chromium, or `false` in Chromium. */
export const onlyChromium = (why) => (browserName === "chromium" ? false : why);

/** The time after which a test gives up waiting for an event. A busy machine with a slow browser takes a few seconds. */
const PATIENCE_MS = 60_000;

/**
 * Sets up the tests of a file that need a browser. `ready` and `done` run before and after them, and `inBrowser`
 * defines one test. Its options are the options of a Playwright context, and `skip`, the reason to skip the test.
 * `chromiumArgs` are additional arguments of Chromium. `tier` is "all" for files that the default tier leaves out.
 */
export function browserTests({ ready = async () => {}, done = async () => {}, chromiumArgs = [], tier = "default" } = {}) {
  const whyNot = skip || (tier === "all" && onlyInAll);
  let browser;
  if (!whyNot) {
    before(async () => {
      browser = await launchBrowser(browserName, undefined, chromiumArgs);
      await ready();
    });
    after(async () => {
      await browser?.close();
      await done();
    });
  }
  const inBrowser = (name, work, { skip: why = false, ...options } = {}) =>
    test(name, { skip: whyNot || why, timeout: 3 * PATIENCE_MS }, async () => {
      const { page, complaints, close } = await (browserName === "firefox" ? newFirefoxPage(browser, options) : newPage(browser, options));
      try {
        await work(page, complaints);
      } catch (error) {
        throw new Error(`${error.message}\n${await stateOf(page, complaints)}`, { cause: error });
      } finally {
        await close();
      }
    });
  return { inBrowser };
}

/** Returns the visible state of a page in a failed test, which would otherwise be lost. */
async function stateOf(page, complaints) {
  const text = await page.locator("body").innerText({ timeout: 2000 }).catch((error) => `(${error.message})`);
  return [`at ${page.url()}`, ...complaints.map((line) => `complaint: ${line}`), "the page:", text.slice(0, 3000)].join("\n");
}

/** Opens a page in Firefox, which cannot emulate phones, and whose colour scheme applies to the whole browser. */
async function newFirefoxPage(browser, { isMobile, colorScheme = "light", ...options }) {
  if (colorScheme === "light") return newPage(browser, options);
  const other = await launchBrowser("firefox", colorScheme);
  return { ...(await newPage(other, options)), close: () => other.close() };
}

/** Opens a page whose errors and warnings are collected in `complaints`. */
async function newPage(browser, options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const complaints = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  return { page, complaints, close: () => context.close() };
}
