/** The npm package as people get it: packed, and unpacked into the node_modules of a project. */

import { execFile } from "node:child_process";
import { mkdir, rename } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../../../wasm", import.meta.url));

/** Installs the packed package into `project`; returns the names of its files. */
export async function installPacked(project) {
  const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", project], { cwd: root });
  // npm changed this from a list to an object by name.
  const [packed] = Object.values(JSON.parse(stdout));
  await mkdir(join(project, "node_modules"), { recursive: true });
  await run("tar", ["-xzf", join(project, packed.filename), "-C", project]);
  await rename(join(project, "package"), join(project, "node_modules", "zstn"));
  return packed.files.map(({ path }) => path);
}
