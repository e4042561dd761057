/** The npm package in its published form: packed, and unpacked into the node_modules of a project. */

import { execFile } from "node:child_process";
import { mkdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../../../wasm", import.meta.url));

/** Creates the tarball for npm in `folder`. */
async function tarball(folder) {
  const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", folder], { cwd: root });
  // Some versions of npm print a list, others an object by package name.
  const [packed] = Object.values(JSON.parse(stdout));
  return packed;
}

/** Sets up `project` as in the README: `npm install` with the tarball, which needs no network. */
export async function installTarball(project) {
  const { filename } = await tarball(project);
  await writeFile(join(project, "package.json"), '{ "private": true, "type": "module" }');
  await run("npm", ["install", "--offline", "--no-audit", "--no-fund", `./${filename}`], { cwd: project });
}

/** Installs the packed package into `project`. Returns the names of its files. */
export async function installPacked(project) {
  const packed = await tarball(project);
  await mkdir(join(project, "node_modules"), { recursive: true });
  await run("tar", ["-xzf", join(project, packed.filename), "-C", project]);
  await rename(join(project, "package"), join(project, "node_modules", "zstn"));
  return packed.files.map(({ path }) => path);
}
