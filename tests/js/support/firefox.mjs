/** The system's Firefox by WebDriver BiDi: the browser that people have, not the patched one that playwright downloads. */

import { firefox } from "playwright-core";

/** Playwright sends this with every context. Firefox ESR 153 does not know it, and the preference below does the same. */
const UNKNOWN_COMMAND = "emulation.setMediaFeaturesOverride";

/** Values of the preference for what pages see as the system's colour scheme. */
const SCHEMES = { dark: 0, light: 1 };

/** Starts it. A colour scheme belongs to the whole browser here, so a test in the other one needs another browser. */
export async function launchFirefox(colorScheme = "light") {
  const browser = await firefox.launch({
    channel: "moz-firefox",
    executablePath: process.env.FIREFOX || "/usr/bin/firefox-esr",
    firefoxUserPrefs: { "layout.css.prefers-color-scheme.content-override": SCHEMES[colorScheme] },
  });
  leaveOut(browser);
  return browser;
}

/** Playwright has no switch for it: the sessions of its server part, which runs in this process, get one. */
function leaveOut(browser) {
  const sessions = Object.getPrototypeOf(browser._connection.toImpl(browser)._browserSession);
  if (sessions.withoutMediaFeatures) return;
  const { send } = sessions;
  sessions.withoutMediaFeatures = true;
  sessions.send = function (method, ...rest) {
    return method === UNKNOWN_COMMAND ? Promise.resolve() : send.call(this, method, ...rest);
  };
}
