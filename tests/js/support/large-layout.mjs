/** The layout of a packed model of 70 billion parameters: 723 tensors with statistics, in a sparse file. */

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const BUILT = fileURLToPath(new URL("../../../target/debug/large-layout", import.meta.url));

/**
 * Writes the file into a folder and returns its path. Its frames are holes in the file, so tensors can be listed but
 * not decoded.
 */
export async function largeLayout(folder, name = "large.zstn") {
  const program = process.env.ZSTN_LARGE_LAYOUT ?? BUILT;
  if (!existsSync(program)) throw new Error("No program large-layout: build it with `cargo build -p zstn-tests --bin large-layout`, or name it in ZSTN_LARGE_LAYOUT.");
  const path = join(folder, name);
  await run(program, [path]);
  return path;
}
