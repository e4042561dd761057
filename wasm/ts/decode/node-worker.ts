/** The script of a decoding worker in Node. */

import { parentPort } from "node:worker_threads";
import { decode } from "./instance.js";
import { answer } from "./message.js";
import type { Request } from "./message.js";

parentPort!.on("message", (request: Request) => parentPort!.postMessage(...answer(request, decode)));
parentPort!.postMessage({ ready: true });
