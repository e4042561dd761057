/** The page's interface to its worker: calls that report progress and can be aborted. */

import type { CallName, Calls, SerializedError, FromWorker, Step, ToWorker, NetworkStats } from "./protocol.js";

/** An error that occurred in the worker, with the fields of the original error that the page uses. */
export class EngineError extends Error {
  readonly code: string | undefined;
  readonly status: number | undefined;
  /** The URL of the failed request. */
  readonly url: string | undefined;
  /** The server that refused access, if another token may help. */
  readonly origin: string | undefined;

  constructor(error: SerializedError) {
    super(error.message);
    this.name = error.name;
    this.code = error.code;
    this.status = error.status;
    this.url = error.url;
    this.origin = error.origin;
  }
}

export interface CallOptions {
  signal?: AbortSignal | undefined;
  onStep?: ((step: Step) => void) | undefined;
}

interface Waiting {
  resolve: (result: never) => void;
  reject: (error: unknown) => void;
  onStep: ((step: Step) => void) | undefined;
}

export class Engine {
  /** Called when the network counters change. */
  onNetworkStats: (stats: NetworkStats) => void = () => {};
  readonly #worker = new Worker(new URL("./start-worker.ts", import.meta.url), { type: "module" });
  readonly #waiting = new Map<number, Waiting>();
  #lastId = 0;

  constructor() {
    this.#worker.onmessage = ({ data }: MessageEvent<FromWorker>) => this.#onMessage(data);
    this.#worker.onerror = (event) => this.#fail(new Error(event.message || "The worker of this page could not be started. Reload the page."));
  }

  call<N extends CallName>(call: N, request: Calls[N]["request"], { signal, onStep }: CallOptions = {}): Promise<Calls[N]["result"]> {
    signal?.throwIfAborted();
    const id = ++this.#lastId;
    const abort = () => {
      const waiting = this.#waiting.get(id);
      if (!waiting) return;
      this.#waiting.delete(id);
      this.#post({ id, abort: true });
      waiting.reject(signal!.reason);
    };
    const done = new Promise<Calls[N]["result"]>((resolve, reject) => this.#waiting.set(id, { resolve, reject, onStep }));
    signal?.addEventListener("abort", abort, { once: true });
    this.#post({ id, call, request });
    return done.finally(() => signal?.removeEventListener("abort", abort));
  }

  /** Terminates the worker and rejects all calls. */
  stop(): void {
    this.#worker.terminate();
    this.#fail(new DOMException("Stopped.", "AbortError"));
  }

  #post(message: ToWorker): void {
    this.#worker.postMessage(message);
  }

  #fail(error: unknown): void {
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }

  #onMessage(message: FromWorker): void {
    if ("network" in message) return this.onNetworkStats(message.network);
    const waiting = this.#waiting.get(message.id);
    if (!waiting) return; // the call was aborted
    if ("step" in message) return waiting.onStep?.(message.step);
    this.#waiting.delete(message.id);
    if ("error" in message) waiting.reject(new EngineError(message.error));
    else waiting.resolve(message.result as never);
  }
}
