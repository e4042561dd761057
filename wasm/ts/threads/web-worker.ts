/**
 * The script of the worker that owns the threads, in browsers: the entry `zstn/threads-worker`. A worker is needed
 * because a page itself may not wait for threads.
 */

import init, { initThreadPool } from "../core/zstn_threads.js";
import type { WorkerRequest } from "../decode/message.js";
import { notLoaded } from "../decode/script-address.js";
import { handle } from "./decode.js";
import type { InitMessage } from "./message.js";
import { startThreadsWith } from "./rayon.js";

/** The members of a worker's global scope that this script uses. The DOM types do not declare them. */
interface Scope {
  postMessage(message: unknown, transfer?: Transferable[]): void;
  onmessage: ((event: MessageEvent) => void) | null;
}

const scope = globalThis as unknown as Scope;

const createThread = (): Worker => new Worker(new URL("./web-thread.js", import.meta.url), { type: "module", name: "zstn thread" });

startThreadsWith(
  (threadInit) =>
    new Promise((resolve, reject) => {
      const thread = createThread();
      thread.onmessage = () => resolve(thread);
      thread.onerror = ({ message }) => reject(new Error(message || notLoaded(createThread)));
      thread.postMessage(threadInit);
    }),
);

async function begin({ threads, module }: InitMessage): Promise<void> {
  await init({ module_or_path: module ?? new URL("../core/zstn_threads_bg.wasm", import.meta.url) });
  await initThreadPool(threads);
  scope.onmessage = ({ data }: MessageEvent<WorkerRequest>) => scope.postMessage(...handle(data));
  scope.postMessage({ ready: true });
}

// The pool listens for errors, which a rejected promise alone does not raise.
scope.onmessage = ({ data }: MessageEvent<InitMessage>) => void begin(data).catch(reportError);
