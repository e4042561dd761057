/// <reference lib="esnext.disposable" preserve="true" />
/** Workers that decode tensors, so that the thread that asks for them stays free, and several are decoded at once. */

import { InvalidInputError, WorkerError } from "../errors.js";
import { inline } from "./decoder.js";
import type { Job, Subject } from "./decoder.js";
import { Member } from "./member.js";
import type { Events } from "./member.js";
import { Task } from "./task.js";
import type { StartThread } from "./thread.js";

/** What `workerPool` may be given. */
export interface WorkerPoolOptions {
  /** Most workers at the same time: as many as there are cores, at most 4, unless said otherwise. 0: none. */
  size?: number;
  /** Tensors of fewer bytes are decoded on the thread that asks, which takes less time than handing them over; 256 KiB unless said otherwise. */
  leastBytes?: number;
  /**
   * Makes a `Worker` (in Node, one of `node:worker_threads`) whose script imports `zstn/worker`: where a bundler has
   * not carried that script along, or the code of this package comes from another origin than the page.
   */
  worker?: () => object;
}

/** Decoding this much takes some milliseconds, asking a worker and hearing from it some tenths of one. */
const LEAST_BYTES = 256 << 10;

/** Each has memory of its own for stored and decoded bytes. */
const MOST_BY_DEFAULT = 4;

/** Workers without work give their memory back; starting one again takes some ten milliseconds. */
const IDLE_MS = 10_000;

/** Workers for one model or several, made by `workerPool`. They are started when they are needed and stopped when they are not. */
export class WorkerPool {
  /** Most workers at the same time. */
  readonly size: number;
  readonly #leastBytes: number;
  readonly #start: StartThread;
  /** As `size`, until fewer turn out to be possible. */
  #most: number;
  readonly #members = new Set<Member>();
  #waiting: Task[] = [];
  readonly #underWay = new Set<Task>();
  #decoded = 0;
  #problem: unknown;
  #closed = false;
  #idle: ReturnType<typeof setTimeout> | undefined;

  /** @internal */
  constructor({ size, leastBytes = LEAST_BYTES }: WorkerPoolOptions, cores: number, start: StartThread) {
    this.size = size ?? Math.min(cores, MOST_BY_DEFAULT);
    if (!Number.isInteger(this.size) || this.size < 0) throw new InvalidInputError(`The number of workers is a whole number, not ${String(size)}.`);
    if (!(leastBytes >= 0)) throw new InvalidInputError(`\`leastBytes\` is a number of bytes, not ${String(leastBytes)}.`);
    this.#most = this.size;
    this.#leastBytes = leastBytes;
    this.#start = start;
  }

  /** Workers that run now. */
  get running(): number {
    return this.#members.size;
  }

  /** Tensors that workers have decoded so far. */
  get decoded(): number {
    return this.#decoded;
  }

  /** Why a worker could not be started, if so. Without any, tensors are decoded on the thread that asks. */
  get problem(): unknown {
    return this.#problem;
  }

  /** @internal */
  expect(subject: Subject): void {
    if (this.#takes(subject) && this.#members.size === 0) this.#startOne();
  }

  /** @internal */
  async decode(job: Job): Promise<Uint8Array<ArrayBuffer>> {
    if (!this.#takes(job)) return inline.decode(job);
    clearTimeout(this.#idle);
    const task = new Task(job);
    this.#waiting.push(task);
    this.#underWay.add(task);
    this.#assign();
    try {
      const bytes = await task.promise;
      if (!job.into || job.into === bytes) return bytes;
      job.into.set(bytes);
      return job.into;
    } finally {
      this.#underWay.delete(task);
      if (this.#underWay.size === 0) this.#rest();
    }
  }

  /** Stops all workers. What they were decoding fails; models that use the pool decode without it from now on. Calling it again does nothing. */
  close(): void {
    this.#closed = true;
    for (const task of this.#underWay) task.fail(new WorkerError("The pool of workers was closed.", task.job.info.name));
    this.#stopAll();
  }

  /** Closes the pool at the end of a block, where the runtime knows `Symbol.dispose`. */
  declare readonly [Symbol.dispose]: () => void;

  static {
    if (Symbol.dispose) Object.defineProperty(this.prototype, Symbol.dispose, { value: this.prototype.close });
  }

  #takes({ model, index, info }: Subject): boolean {
    return this.#most > 0 && !this.#closed && info.byteLength >= this.#leastBytes && !model.isPlain(index);
  }

  /** Gives waiting tensors to idle workers, and starts more of them for the rest. */
  #assign(): void {
    this.#waiting = this.#waiting.filter((task) => !task.settled);
    for (const member of this.#members) {
      const task = member.idle ? this.#waiting.shift() : undefined;
      if (task) this.#hand(member, task);
    }
    const starting = [...this.#members].filter((member) => member.starting).length;
    for (let missing = this.#waiting.length - starting; missing > 0 && this.#members.size < this.#most; missing--) this.#startOne();
  }

  #hand(member: Member, task: Task): void {
    try {
      member.take(task);
    } catch (cause) {
      // Such as a module that may not be sent. Nothing has been handed over, and nothing else could be.
      task.succeed(inline.decode(task.job));
      this.#giveUp(cause, 0);
    }
  }

  #startOne(): void {
    const events: Events = {
      free: () => (this.#underWay.size === 0 ? this.#rest() : this.#assign()),
      decoded: () => (this.#decoded += 1),
      lost: (member, started, cause) => {
        this.#members.delete(member);
        if (!started) this.#giveUp(cause, this.#members.size);
        this.#assign();
      },
    };
    try {
      this.#members.add(new Member(this.#start, events));
    } catch (cause) {
      this.#giveUp(cause, this.#members.size);
    }
  }

  /** There can be no more workers than `most`. Without any, everything is decoded here. */
  #giveUp(cause: unknown, most: number): void {
    this.#problem = cause;
    this.#most = most;
    if (most > 0) return;
    for (const task of this.#waiting.splice(0)) if (!task.settled) task.succeed(inline.decode(task.job));
  }

  #rest(): void {
    clearTimeout(this.#idle);
    if (this.#members.size === 0) return;
    this.#idle = setTimeout(() => this.#stopAll(), IDLE_MS);
    (this.#idle as { unref?: () => void }).unref?.();
  }

  #stopAll(): void {
    clearTimeout(this.#idle);
    for (const member of this.#members) member.stop();
    this.#members.clear();
  }
}
