/** The interface of a worker to its pool, in browsers and in Node. */

import type { WorkerResponse } from "./message.js";

/** A running worker. */
export interface WorkerHandle {
  /** Whether the worker brings its own module. */
  readonly hasModule?: boolean;
  post(message: unknown, transfer: ArrayBuffer[]): void;
  /** Whether the worker keeps the process alive for as long as it runs, whatever `setKeepAlive` says. */
  readonly holdsProcess?: boolean;
  /** Sets whether the worker keeps the process alive (Node). A new worker does. */
  setKeepAlive(keepAlive: boolean): void;
  stop(): void;
}

/** Receives the events of a worker. */
export interface WorkerListener {
  onMessage(response: WorkerResponse): void;
  /** Called when the worker could not start, or has ended. */
  onError(cause: unknown): void;
}

/** Starts a worker. Throws, or calls `onError`, where none can be started. */
export type StartWorker = (listener: WorkerListener) => WorkerHandle;
