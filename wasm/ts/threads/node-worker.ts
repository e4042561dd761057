/** The script of the worker that owns the threads, in Node. */

import { readFile } from "node:fs/promises";
import { Worker, parentPort } from "node:worker_threads";
import init, { initThreadPool } from "../core/zstn_threads.js";
import type { WorkerRequest } from "../decode/message.js";
import { handle } from "./decode.js";
import type { InitMessage } from "./message.js";
import { startThreadsWith } from "./rayon.js";

const port = parentPort!;

startThreadsWith(
  (threadInit) =>
    new Promise((resolve, reject) => {
      const thread = new Worker(new URL("./node-thread.js", import.meta.url), { workerData: threadInit, name: "zstn thread" });
      thread.once("error", reject);
      thread.once("message", () => {
        thread.unref(); // not earlier: without this reference, nothing would keep the worker alive while it waits
        resolve(thread);
      });
    }),
);

port.once("message", async ({ threads, module }: InitMessage) => {
  await init({ module_or_path: module ?? (await readFile(new URL("../core/zstn_threads_bg.wasm", import.meta.url))) });
  await initThreadPool(threads);
  port.on("message", (request: WorkerRequest) => port.postMessage(...handle(request)));
  port.postMessage({ ready: true });
});
