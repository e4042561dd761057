/** The script of the worker that the threads belong to, in Node. */

import { readFile } from "node:fs/promises";
import { Worker, parentPort } from "node:worker_threads";
import init, { initThreadPool } from "../core/zstn_threads.js";
import type { Request } from "../decode/message.js";
import { decoded } from "./decode.js";
import type { Beginning } from "./message.js";
import { startThreadsWith } from "./rayon.js";

const port = parentPort!;

startThreadsWith(
  (seed) =>
    new Promise((resolve, reject) => {
      const thread = new Worker(new URL("./node-thread.js", import.meta.url), { workerData: seed, name: "zstn thread" });
      thread.once("error", reject);
      thread.once("message", () => {
        thread.unref(); // not before: waiting for it alone would end this worker
        resolve(thread);
      });
    }),
);

port.once("message", async ({ threads, module }: Beginning) => {
  await init({ module_or_path: module ?? (await readFile(new URL("../core/zstn_threads_bg.wasm", import.meta.url))) });
  await initThreadPool(threads);
  port.on("message", (request: Request) => port.postMessage(...decoded(request)));
  port.postMessage({ ready: true });
});
