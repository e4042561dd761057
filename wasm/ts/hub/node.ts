/** The entry `zstn/hub` for Node, which uses the environment variables and the token file of the hub's own tools. */

import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { env } from "node:process";
import { ReadError } from "../errors.js";
import { networkCause } from "../node/network-cause.js";
import { httpFunctions } from "../source/http/http-functions.js";
import { setNetworkCause } from "../source/http/network-failure.js";
import { setEnvironment } from "./environment.js";
import type { HubEnvironment } from "./environment.js";

export * from "./exports.js";

const login: HubEnvironment = {
  endpoint: () => set("HF_ENDPOINT"),
  token,
  logIn: () =>
    isDisabled() ? "unset HF_HUB_DISABLE_IMPLICIT_TOKEN, which keeps the token from being sent, or pass a `token`" : "log in by `hf auth login`, set HF_TOKEN, or pass a `token`",
};

setNetworkCause(networkCause);
setEnvironment(login, httpFunctions);

const set = (name: string): string | undefined => env[name] || undefined;

const isDisabled = (): boolean => ["1", "ON", "YES", "TRUE"].includes((env["HF_HUB_DISABLE_IMPLICIT_TOKEN"] ?? "").toUpperCase());

/**
 * Returns the token in `HF_TOKEN`, otherwise the one in the file that `hf auth login` writes. Rejects with a
 * `ReadError` if that file exists and cannot be read.
 */
async function token(): Promise<string | undefined> {
  if (isDisabled()) return undefined;
  const own = (set("HF_TOKEN") ?? set("HUGGING_FACE_HUB_TOKEN"))?.trim();
  if (own) return own;
  const path = tokenPath();
  try {
    return (await readFile(path, "utf8")).trim() || undefined;
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw new ReadError(`Could not read the token for the hub in ${path}: ${message}`, { cause });
  }
}

function tokenPath(): string {
  const expanded = (name: string) => set(name)?.replace(/^~(?=\/|$)/, homedir());
  const own = expanded("HF_TOKEN_PATH");
  if (own !== undefined) return own;
  const home = expanded("HF_HOME") ?? join(expanded("XDG_CACHE_HOME") ?? join(homedir(), ".cache"), "huggingface");
  return join(home, "token");
}
