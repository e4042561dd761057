/** The script of one decoding thread, in Node. */

import { parentPort, workerData } from "node:worker_threads";
import { initSync, wbg_rayon_start_worker } from "../core/zstn_threads.js";
import type { ThreadInit } from "./rayon.js";

const { module, memory, receiver } = workerData as ThreadInit;
initSync({ module, memory });
parentPort!.postMessage("ready");
wbg_rayon_start_worker(receiver);
