/** The script of one decoding thread, in browsers. */

import { initSync, wbg_rayon_start_worker } from "../core/zstn_threads.js";
import type { ThreadInit } from "./rayon.js";

const scope = globalThis as unknown as { postMessage(message: unknown): void; onmessage: ((event: MessageEvent<ThreadInit>) => void) | null };

scope.onmessage = ({ data: { module, memory, receiver } }) => {
  initSync({ module, memory });
  scope.postMessage("ready");
  wbg_rayon_start_worker(receiver);
};
