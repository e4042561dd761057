/** One worker of a pool, from its start to its end. */

import { WorkerError } from "../errors.js";
import { asError } from "../rejection.js";
import { own } from "../source/given.js";
import type { Answer, Request } from "./message.js";
import type { Task } from "./task.js";
import type { StartThread, Thread } from "./thread.js";

/** A worker that has not said a word for so long after its start is taken for one that cannot start. */
const START_MS = 10_000;

/** Told to the pool. */
export interface Events {
  /** It has started, or is done with its task. */
  free(member: Member): void;
  /** It has decoded a tensor. */
  decoded(): void;
  /** It is no more. `started` says whether it ever was. */
  lost(member: Member, started: boolean, cause: unknown): void;
}

export class Member {
  readonly #events: Events;
  readonly #thread: Thread;
  readonly #startLimit: ReturnType<typeof setTimeout>;
  /** The modules it has: the one with all formats, the one without. */
  readonly #modules = new Set<boolean>();
  #task: Task | undefined;
  #state: "starting" | "started" | "gone" = "starting";

  /** Throws where no worker can be had at all. */
  constructor(start: StartThread, events: Events) {
    this.#events = events;
    this.#thread = start({ answered: (answer) => this.#answered(answer), failed: (cause) => this.#failed(cause) });
    this.#startLimit = setTimeout(() => this.#failed(new Error("it does not start")), START_MS);
    (this.#startLimit as { unref?: () => void }).unref?.();
  }

  get starting(): boolean {
    return this.#state === "starting";
  }

  get idle(): boolean {
    return this.#state === "started" && !this.#task;
  }

  /** Has it decode. It must be idle. Throws, with nothing done, if the tensor cannot be handed over. */
  take(task: Task): void {
    const { model, index, parts, reference } = task.job;
    const formats = model.hasFormats();
    const request: Request = {
      formats,
      module: this.#thread.hasModule || this.#modules.has(formats) ? undefined : model.module(),
      recipe: model.recipe(index),
      parts: parts.map(own),
      reference,
    };
    const buffers = [request.recipe, ...request.parts, ...(reference ? [reference] : [])].map(({ buffer }) => buffer as ArrayBuffer);
    this.#thread.post(request, [...new Set(buffers)]);
    this.#modules.add(formats);
    this.#task = task;
    this.#thread.hold(true);
  }

  stop(): void {
    this.#state = "gone";
    clearTimeout(this.#startLimit);
    this.#thread.stop();
  }

  #answered(answer: Answer): void {
    if (this.#state === "gone") return;
    const task = this.#task;
    this.#task = undefined;
    this.#thread.hold(false);
    if ("ready" in answer) {
      this.#state = "started";
      clearTimeout(this.#startLimit);
    } else if ("bytes" in answer) {
      this.#events.decoded();
      task?.succeed(answer.bytes);
    } else if ("rejection" in answer) task?.fail(asError(answer.rejection));
    else {
      task?.fail(asError(new Error(answer.trap)));
      this.stop();
      this.#events.lost(this, true, undefined);
      return;
    }
    this.#events.free(this);
  }

  #failed(cause: unknown): void {
    if (this.#state === "gone") return;
    const started = this.#state === "started";
    const task = this.#task;
    this.stop();
    if (task) {
      const tensor = task.job.info.name;
      const reason = cause instanceof Error ? cause.message : String(cause);
      const message = `The worker that was decoding the tensor ${tensor} has ended (${reason}). Read it again: another worker takes over.`;
      task.fail(new WorkerError(message, tensor, { cause }));
    }
    this.#events.lost(this, started, cause);
  }
}
