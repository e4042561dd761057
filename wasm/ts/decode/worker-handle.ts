/** The platform-independent interface between a worker and its pool. */

import type { WorkerResponse } from "./message.js";

/** A worker that has been started. It may still be loading its script. */
export interface WorkerHandle {
  /** True if the worker loads its own module, so that the pool need not send one. */
  readonly hasModule?: boolean;
  post(message: unknown, transfer: ArrayBuffer[]): void;
  /** True if the worker keeps the process alive for as long as it runs, regardless of `setKeepAlive`. */
  readonly holdsProcess?: boolean;
  /** Sets whether the worker keeps the process alive (Node only). A new worker does. */
  setKeepAlive(keepAlive: boolean): void;
  stop(): void;
}

/** The functions that a pool passes to `StartWorker`, and that the worker calls. */
export interface WorkerListener {
  onMessage(response: WorkerResponse): void;
  /** Called when the worker could not start or has ended. */
  onError(cause: unknown): void;
}

/** Starts a worker. If no worker can be started, it throws or calls `onError`. */
export type StartWorker = (listener: WorkerListener) => WorkerHandle;
