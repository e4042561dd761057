/** The script of a decoding worker in Node. */

import { parentPort } from "node:worker_threads";
import { handleRequest } from "./message.js";
import type { WorkerRequest } from "./message.js";
import { decode } from "./worker-decode.js";

parentPort!.on("message", (request: WorkerRequest) => parentPort!.postMessage(...handleRequest(request, decode)));
parentPort!.postMessage({ ready: true });
