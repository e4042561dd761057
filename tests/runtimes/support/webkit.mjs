/** WebKitGTK's MiniBrowser, controlled through WebDriver, on a separate display. */

import { spawn } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { createServer } from "node:net";
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";

const DRIVER = "/usr/bin/WebKitWebDriver";
const XVFB = "/usr/bin/Xvfb";

/** Returns the path of the MiniBrowser, which Debian keeps below the folder of its architecture. */
function miniBrowser() {
  const places = readdirSync("/usr/lib").flatMap((folder) => ["webkit2gtk-4.1", "webkitgtk-6.0"].map((version) => `/usr/lib/${folder}/${version}/MiniBrowser`));
  return places.find((path) => existsSync(path));
}

/** The reason why WebKitGTK cannot be used, or `false`. */
export const withoutWebkit = () => (existsSync(DRIVER) && existsSync(XVFB) && miniBrowser() ? false : "no WebKitGTK: install webkit2gtk-driver and xvfb");

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Starts the MiniBrowser in the locale `lang`, with `args` as additional arguments. */
export async function startWebkit({ lang = "C", args = [] } = {}) {
  const display = spawn(XVFB, ["-displayfd", "3", "-screen", "0", "1280x1024x24", "-nolisten", "tcp"], { stdio: ["ignore", "ignore", "ignore", "pipe"] });
  const [number] = await once(display.stdio[3], "data");
  const port = await freePort();
  const env = { ...process.env, DISPLAY: `:${String(number).trim()}`, LANG: lang, LC_ALL: lang, WEBKIT_DISABLE_COMPOSITING_MODE: "1", GDK_BACKEND: "x11" };
  const driver = spawn(DRIVER, [`--port=${port}`], { stdio: "ignore", env });
  let session;
  const send = async (method, path, body) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { method, ...(body && { body: JSON.stringify(body), headers: { "content-type": "application/json" } }) });
    const { value } = await response.json();
    if (!response.ok) throw new Error(`WebDriver: ${value.error}: ${value.message}`);
    return value;
  };
  const stop = async () => {
    if (session) await send("DELETE", session).catch(() => {});
    driver.kill();
    display.kill();
  };
  try {
    for (let wait = 0; ; wait++) {
      try {
        await send("GET", "/status");
        break;
      } catch (error) {
        if (wait === 100) throw error;
        await pause(100);
      }
    }
    const capabilities = { alwaysMatch: { "webkitgtk:browserOptions": { binary: miniBrowser(), args: ["--automation", ...args] } } };
    const { sessionId, capabilities: got } = await send("POST", "/session", { capabilities });
    session = `/session/${sessionId}`;
    return {
      version: got.browserVersion,
      go: (url) => send("POST", `${session}/url`, { url }),
      evaluate: (script) => send("POST", `${session}/execute/sync`, { script, args: [] }),
      /** Runs `script` repeatedly until its result is not null, and returns the result. */
      async until(script, timeoutMs = 100_000) {
        for (const end = Date.now() + timeoutMs; Date.now() < end; await pause(100)) {
          const value = await send("POST", `${session}/execute/sync`, { script, args: [] });
          if (value !== null) return value;
        }
        throw new Error(`It did not happen in ${timeoutMs / 1000} s: ${script}`);
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
