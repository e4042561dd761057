/** Manages one worker of a pool, from its start to its end. */

import { WorkerError } from "../errors.js";
import { toZstnError } from "../core-errors.js";
import { toTransferable } from "../source/transferable.js";
import type { WorkerRequest, WorkerResponse } from "./message.js";
import type { Task } from "./task.js";
import type { StartWorker, WorkerHandle } from "./worker-handle.js";

/** The time a worker may take to start before it is considered unable to, in milliseconds. */
const START_MS = 10_000;

/** Receives the events of a pool worker. */
export interface PoolWorkerEvents {
  /** The worker has started, or has finished its task. */
  onIdle(worker: PoolWorker): void;
  /** The worker has decoded a tensor or a band. */
  onDecoded(task: Task | undefined): void;
  /** The worker has ended. `started` is true if it had been running. */
  onExit(worker: PoolWorker, started: boolean, cause: unknown): void;
}

export class PoolWorker {
  readonly #events: PoolWorkerEvents;
  readonly #handle: WorkerHandle;
  readonly #startLimit: ReturnType<typeof setTimeout>;
  /** The modules that have been sent to the worker: `true` is the one with all formats. */
  readonly #modules = new Set<boolean>();
  #task: Task | undefined;
  #state: "starting" | "started" | "gone" = "starting";

  /** Throws if this platform cannot start a worker at all. */
  constructor(start: StartWorker, events: PoolWorkerEvents) {
    this.#events = events;
    this.#handle = start({ onMessage: (response) => this.#onMessage(response), onError: (cause) => this.#onError(cause) });
    this.#startLimit = setTimeout(() => this.#onError(new Error("it does not start")), START_MS);
    (this.#startLimit as { unref?: () => void }).unref?.();
  }

  get starting(): boolean {
    return this.#state === "starting";
  }

  get holdsProcess(): boolean {
    return this.#handle.holdsProcess === true;
  }

  get idle(): boolean {
    return this.#state === "started" && !this.#task;
  }

  /** Starts decoding `task`. The worker must be idle. If the tensor cannot be sent, this throws and transfers nothing. */
  run(task: Task): void {
    const { instance, model, index, parts, reference } = task.request;
    const { formats, module, decodeTask } = instance.call(() => {
      const formats = !model.isFrame;
      const hasModule = this.#handle.hasModule || this.#modules.has(formats);
      return { formats, module: hasModule ? undefined : model.module(), decodeTask: model.task(index) };
    });
    const request: WorkerRequest = { formats, module, task: decodeTask, parts: model.span ? parts : parts.map(toTransferable), reference, span: model.span };
    const buffers = [request.task, ...request.parts, ...(reference ? [reference] : [])].map(({ buffer }) => buffer as ArrayBuffer);
    this.#handle.post(request, [...new Set(buffers)]);
    this.#modules.add(formats);
    this.#task = task;
    this.#handle.setKeepAlive(true);
  }

  stop(): void {
    this.#state = "gone";
    clearTimeout(this.#startLimit);
    this.#handle.stop();
  }

  #onMessage(response: WorkerResponse): void {
    if (this.#state === "gone") return;
    const task = this.#task;
    this.#task = undefined;
    this.#handle.setKeepAlive(false);
    if ("ready" in response) {
      this.#state = "started";
      clearTimeout(this.#startLimit);
    } else if ("bytes" in response) {
      this.#events.onDecoded(task);
      task?.succeed(response.bytes);
    } else if ("rejection" in response) task?.fail(toZstnError(response.rejection));
    else {
      task?.fail(toZstnError(new Error(response.trap)));
      this.stop();
      this.#events.onExit(this, true, undefined);
      return;
    }
    this.#events.onIdle(this);
  }

  #onError(cause: unknown): void {
    if (this.#state === "gone") return;
    const started = this.#state === "started";
    const task = this.#task;
    this.stop();
    if (task) {
      const tensor = task.request.info.name;
      const reason = cause instanceof Error ? cause.message : String(cause);
      const message = `The worker that was decoding the tensor ${tensor} has ended (${reason}). Read it again: another worker takes over.`;
      task.fail(new WorkerError(message, tensor, { cause }));
    }
    this.#events.onExit(this, started, cause);
  }
}
