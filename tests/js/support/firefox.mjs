/**
 * The system's Firefox, driven through WebDriver BiDi: the browser that people use, not the patched one that Playwright
 * downloads.
 */

import { firefox } from "playwright-core";

/**
 * A command that Playwright sends with every context. Firefox ESR 153 does not support it; the preference below has the
 * same effect.
 */
const UNKNOWN_COMMAND = "emulation.setMediaFeaturesOverride";

/** The values of the preference that determines the colour scheme for pages. */
const SCHEMES = { dark: 0, light: 1 };

/** Starts Firefox. The colour scheme applies to the whole browser, so a test in another colour scheme needs another browser. */
export async function launchFirefox(colorScheme = "light") {
  const browser = await firefox.launch({
    channel: "moz-firefox",
    executablePath: process.env.FIREFOX || "/usr/bin/firefox-esr",
    firefoxUserPrefs: { "layout.css.prefers-color-scheme.content-override": SCHEMES[colorScheme] },
  });
  leaveOut(browser);
  return browser;
}

/**
 * Suppresses that command. Playwright has no option for this, so the sessions of its server part, which runs in this
 * process, are patched.
 */
function leaveOut(browser) {
  const sessions = Object.getPrototypeOf(browser._connection.toImpl(browser)._browserSession);
  if (sessions.withoutMediaFeatures) return;
  const { send } = sessions;
  sessions.withoutMediaFeatures = true;
  sessions.send = function (method, ...rest) {
    return method === UNKNOWN_COMMAND ? Promise.resolve() : send.call(this, method, ...rest);
  };
}
