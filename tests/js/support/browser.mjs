/** A real browser, driven by playwright: the system's Chromium, or its Firefox where ZSTN_BROWSER is "firefox". */

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

/** What the browser is called in results. */
export const browserName = process.env.ZSTN_BROWSER || "chromium";

const skip = process.env.ZSTN_SKIP_BROWSER ? "ZSTN_SKIP_BROWSER is set" : false;

const LAUNCH = {
  chromium: (_, args = []) => chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: [...CHROMIUM, ...args] }),
  firefox: launchFirefox,
};

/** Starts it. `colorScheme` is for Firefox, where it belongs to the browser; in Chromium it belongs to a context. `chromiumArgs` are further arguments of Chromium. */
export function launchBrowser(name = browserName, colorScheme = undefined, chromiumArgs = undefined) {
  if (!Object.hasOwn(LAUNCH, name)) throw new Error(`ZSTN_BROWSER is "${name}". Known are ${Object.keys(LAUNCH).join(" and ")}.`);
  return LAUNCH[name](colorScheme, chromiumArgs);
}

/** The reason for leaving a test out that needs what only Chromium has, or `false`. */
export const onlyChromium = (why) => (browserName === "chromium" ? false : why);

/**
 * The tests of a file that need a browser: `ready` and `done` run around them, `inBrowser` is one of them. Its options
 * are those of a playwright context, and `skip`, the reason for leaving the test out. `chromiumArgs` are further
 * arguments of Chromium. `tier` is "all" for files that the default tier leaves out.
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
    test(name, { skip: whyNot || why, timeout: 40_000 }, async () => {
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

/** Returns what a person would see of a page in a failed test: a log is all that is left of it. */
async function stateOf(page, complaints) {
  const text = await page.locator("body").innerText({ timeout: 2000 }).catch((error) => `(${error.message})`);
  return [`at ${page.url()}`, ...complaints.map((line) => `complaint: ${line}`), "the page:", text.slice(0, 3000)].join("\n");
}

/** The same in Firefox, which has no phones, and whose colour scheme is that of a browser. */
async function newFirefoxPage(browser, { isMobile, colorScheme = "light", ...options }) {
  if (colorScheme === "light") return newPage(browser, options);
  const other = await launchBrowser("firefox", colorScheme);
  return { ...(await newPage(other, options)), close: () => other.close() };
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
