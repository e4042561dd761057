/** The libraries that tensors are passed to, which `cargo xtask setup` installs. */

import { existsSync, mkdirSync, readdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const folder = process.env.ZSTN_CONSUMERS ?? fileURLToPath(new URL("../../../target/cache/consumers", import.meta.url));

/** The node_modules folder of these libraries. */
export const modules = join(folder, "node_modules");

/** The reason to skip tests that need these libraries, or `false`. */
export const withoutConsumers = existsSync(join(modules, "onnxruntime-node")) ? false : "onnxruntime and TensorFlow.js are not installed; run `cargo xtask setup`";

/** Makes these libraries and the packages of this repository importable in `project`. */
export function linkModules(project) {
  const own = fileURLToPath(new URL("../../../node_modules", import.meta.url));
  mkdirSync(join(project, "node_modules"), { recursive: true });
  for (const [name, from] of [...["onnxruntime-node", "onnxruntime-web", "@tensorflow"].map((name) => [name, modules]), ["@huggingface", own], ["zstn", own]]) {
    if (existsSync(from) && readdirSync(from).includes(name)) symlinkSync(join(from, name), join(project, "node_modules", name));
  }
}
