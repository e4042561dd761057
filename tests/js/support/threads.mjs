/** The module of `zstn/threads`, which can only be built with nightly Rust. */

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** Whether the package contains the module. */
export const hasThreads = existsSync(fileURLToPath(import.meta.resolve("zstn/zstn_threads_bg.wasm")));

/** The option `skip` of a test that needs the module. */
export const withoutThreads = hasThreads ? false : "the module with threads could not be built here";
