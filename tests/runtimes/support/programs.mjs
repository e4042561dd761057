/** The runtimes that `cargo xtask setup` has installed. */

import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** The folder with the packages of `tests/runtimes/package.json`. */
export const installed = process.env.ZSTN_RUNTIMES ?? fileURLToPath(new URL("../../../target/cache/runtimes", import.meta.url));

const modules = join(installed, "node_modules");

/** Returns a program of an installed package. */
export const programOf = (path) => join(modules, path);

/** The reason why a package cannot be used, or `false`. */
export const withoutPackage = (name) => (existsSync(join(modules, name)) ? false : `${name} is not installed: run \`cargo xtask setup\``);

/** The version of an installed package. */
export const versionOf = (name) => JSON.parse(readFileSync(join(modules, name, "package.json"), "utf8")).version;

/** `require` of the installed packages. */
export const requireInstalled = createRequire(join(installed, "package.json"));
