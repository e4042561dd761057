/**
 * `workerPool` of the entry for browsers, in a module of its own: bundlers would otherwise move code that decoders share
 * with other chunks into the code that is loaded at once.
 */

import { workerPool as createWorkerPool } from "./decode/choose-decoder.js";
import { onWeb } from "./web-platform.js";

export const workerPool = /* @__PURE__ */ onWeb(createWorkerPool);
