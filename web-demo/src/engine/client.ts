/** The worker as the page sees it: calls that can be stopped and that tell how far they are. */

import type { CallName, Calls, Failure, FromWorker, Step, ToWorker, Wire } from "./protocol.js";

/** An error of the worker's, with what tells errors apart. */
export class EngineError extends Error {
  readonly code: string | undefined;
  readonly status: number | undefined;
  /** The address that was asked. */
  readonly url: string | undefined;

  constructor(failure: Failure) {
    super(failure.message);
    this.name = failure.name;
    this.code = failure.code;
    this.status = failure.status;
    this.url = failure.url;
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
  /** Called when something has arrived. */
  onWire: (wire: Wire) => void = () => {};
  readonly #worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
  readonly #waiting = new Map<number, Waiting>();
  #lastId = 0;

  constructor() {
    this.#worker.onmessage = ({ data }: MessageEvent<FromWorker>) => this.#heard(data);
    this.#worker.onerror = (event) => this.#fail(new Error(event.message || "The part of this page that reads models could not be started. Reload the page."));
  }

  call<N extends CallName>(call: N, request: Calls[N]["request"], { signal, onStep }: CallOptions = {}): Promise<Calls[N]["result"]> {
    signal?.throwIfAborted();
    const id = ++this.#lastId;
    const done = new Promise<Calls[N]["result"]>((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject, onStep });
      signal?.addEventListener("abort", () => {
        if (!this.#waiting.delete(id)) return;
        this.#post({ id, abort: true });
        reject(signal.reason);
      });
    });
    this.#post({ id, call, request });
    return done;
  }

  /** Ends the worker and everything it does. */
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

  #heard(message: FromWorker): void {
    if ("wire" in message) return this.onWire(message.wire);
    const waiting = this.#waiting.get(message.id);
    if (!waiting) return; // stopped meanwhile
    if ("step" in message) return waiting.onStep?.(message.step);
    this.#waiting.delete(message.id);
    if ("failure" in message) waiting.reject(new EngineError(message.failure));
    else waiting.resolve(message.result as never);
  }
}
