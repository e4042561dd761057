/** What a pool needs of a worker, in browsers and in Node. */

import type { Answer } from "./message.js";

/** A worker that runs. */
export interface Thread {
  /** It brings the module it decodes with. */
  readonly hasModule?: boolean;
  post(message: unknown, transfer: ArrayBuffer[]): void;
  /** Whether it keeps the process running (Node). It does so from the start. */
  hold(hold: boolean): void;
  stop(): void;
}

/** What a worker has to tell. */
export interface Listener {
  answered(answer: Answer): void;
  /** It could not start, or is no more. */
  failed(cause: unknown): void;
}

/** Starts a worker; throws, or tells the listener, if there is none to be had. */
export type StartThread = (listener: Listener) => Thread;
