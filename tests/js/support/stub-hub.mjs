/** The model hub of `tests/rust/support/stub_hub`, in a separate process. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** The tokens that the hub accepts: one with all permissions, and one that can read all but gated repositories. */
export const TOKEN = "hf_secret";
export const READER = "hf_reader";

const program = () => process.env.ZSTN_STUB_HUB ?? fileURLToPath(new URL("../../../target/debug/stub-hub", import.meta.url));

/** Starts a hub. `options` are the options of the program. */
export async function stubHub(...options) {
  const hub = spawn(program(), ["--until-eof", "--token", TOKEN, "--read-token", READER, ...options], { stdio: ["pipe", "pipe", "inherit"] });
  const failed = once(hub, "error").then(([error]) => Promise.reject(error));
  const [endpoint] = await Promise.race([once(createInterface({ input: hub.stdout }), "line"), failed]);
  const control = async (method, what, body) => {
    const response = await fetch(`${endpoint}/${what}`, { method, ...(body && { body: JSON.stringify(body) }), headers: { authorization: `Bearer ${TOKEN}` } });
    if (!response.ok) throw new Error(`${method} ${what}: ${response.status} ${await response.text()}`);
    return response.headers.get("content-type")?.includes("json") ? response.json() : undefined;
  };
  return {
    endpoint,
    /** Commits exactly these files, path → bytes. Returns the commit. */
    async add(repository, files, { branch = "main", private: isPrivate = false, kind = "model" } = {}) {
      const contents = Object.fromEntries(Object.entries(files).map(([path, bytes]) => [path, Buffer.from(bytes).toString("base64")]));
      return (await control("POST", "_stub/commits", { kind, repository, branch, private: isPrivate, files: contents })).commit;
    },
    gate: (repository) => control("PUT", `api/models/${repository}/settings`, { gated: "auto" }),
    inject: (fault) => control("POST", "_stub/faults", fault),
    heal: () => control("DELETE", "_stub/faults"),
    clearLog: () => control("DELETE", "_stub/log"),
    /** Returns the requests since the last `clearLog`. */
    log: async () => (await control("GET", "_stub/log")).map((request) => ({ ...request, headers: Object.fromEntries(request.headers) })),
    async stop() {
      hub.stdin.end();
      if (hub.exitCode === null) await once(hub, "exit");
    },
  };
}
