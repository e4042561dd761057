/// <reference lib="esnext.disposable" preserve="true" />
/** A pool of workers that decode tensors: the calling thread stays responsive, and several tensors are decoded at once. */

import { InvalidInputError, WorkerError, ZstnError } from "../errors.js";
import { inline } from "./decoder.js";
import type { Decoder, DecodeRequest, DecodeTarget, PoolLoad } from "./decoder.js";
import { PoolWorker } from "./pool-worker.js";
import type { PoolWorkerEvents } from "./pool-worker.js";
import { Task } from "./task.js";
import type { StartWorker } from "./worker-handle.js";

/** Options of `workerPool`. */
export interface WorkerPoolOptions {
  /**
   * The maximum number of workers. By default the number of processor cores, but at most 4. With 0, all tensors are
   * decoded on the calling thread.
   */
  size?: number;
  /**
   * Tensors shorter than this, in bytes, are decoded on the calling thread, which is faster than sending them. 256 KiB
   * by default. Tensors of 64 times this length may be decoded by several workers.
   */
  minBytes?: number;
}

/** The decoder that a model uses. */
export interface Decoding {
  decoder: Decoder;
  /** The pool to close with the model, if the model owns one. */
  ownPool?: WorkerPool;
}

/** Decoding this many bytes takes a few milliseconds; a round trip to a worker takes a few tenths of one. */
const DEFAULT_MIN_BYTES = 256 << 10;

/**
 * Tensors of this many times `minBytes` may be divided into bands: 16 MiB by default. Dividing costs two copies, which is
 * more than it saves for shorter tensors if all processor cores are busy.
 */
const MIN_DIVIDED = 64;

/** The default maximum of workers. It is low because each worker needs its own memory for stored and decoded bytes. */
const DEFAULT_MAX_WORKERS = 4;

/**
 * The idle time after which the workers are stopped to free their memory, in milliseconds. Starting a worker again
 * takes some ten milliseconds.
 */
const IDLE_MS = 10_000;

/** The idle time after which workers that keep the process alive (Deno) are stopped, in milliseconds. */
const HOLDING_IDLE_MS = 500;

/**
 * Returns the maximum number of workers or threads in a pool: a small multiple of the number of processor cores, since
 * each worker takes memory of its own.
 */
export const mostWorkers = (cores: number): number => Math.max(16, 8 * cores);

/**
 * A pool of decoding workers for one or more models, created by `workerPool`. Workers start on demand and stop after
 * ten idle seconds.
 */
export class WorkerPool {
  /** The maximum number of workers. */
  readonly size: number;
  readonly #minBytes: number;
  readonly #start: StartWorker;
  /** The work of the pool. The maximum number of workers is `size`, until starting one fails. */
  readonly #load: PoolLoad;
  readonly #workers = new Set<PoolWorker>();
  #waiting: Task[] = [];
  readonly #running = new Set<Task>();
  #arrived = 0;
  #startError: unknown;
  #closed = false;
  #idleTimer: ReturnType<typeof setTimeout> | undefined;

  /** @internal */
  constructor({ size, minBytes = DEFAULT_MIN_BYTES }: WorkerPoolOptions, cores: number, start: StartWorker) {
    this.size = size ?? Math.min(cores, DEFAULT_MAX_WORKERS);
    const most = mostWorkers(cores);
    if (!Number.isInteger(this.size) || this.size < 0 || this.size > most) throw new InvalidInputError(`The number of workers must be a whole number from 0 to ${most}, not ${String(size)}.`);
    if (!(minBytes >= 0)) throw new InvalidInputError(`\`minBytes\` must be a number of bytes, not ${String(minBytes)}.`);
    this.#load = { workers: this.size, pendingBytes: 0, decoded: 0 };
    this.#minBytes = minBytes;
    this.#start = start;
  }

  /** The number of workers that are running. */
  get running(): number {
    return this.#workers.size;
  }

  /** The number of tensors that workers have decoded so far. */
  get decoded(): number {
    return this.#load.decoded;
  }

  /**
   * The error of a worker that could not be started; `undefined` if there was none. If no worker can be started,
   * tensors are decoded on the calling thread.
   */
  get startError(): unknown {
    return this.#startError;
  }

  /** @internal */
  warmUp(target: DecodeTarget): void {
    if (this.#takes(target) && this.#workers.size === 0) this.#startOne();
  }

  /** @internal */
  divides(target: DecodeTarget): PoolLoad | undefined {
    return this.#load.workers > 1 && this.#takes(target, MIN_DIVIDED) ? this.#load : undefined;
  }

  /** @internal */
  async decode(request: DecodeRequest): Promise<Uint8Array<ArrayBuffer>> {
    if (!this.#takes(request)) return inline.decode(request);
    clearTimeout(this.#idleTimer);
    const task = new Task(request, this.#arrived++);
    this.#waiting.push(task);
    this.#running.add(task);
    this.#load.pendingBytes += request.info.byteLength;
    this.#assign();
    try {
      const bytes = await task.promise;
      if (!request.into || request.into === bytes) return bytes;
      request.into.set(bytes);
      return request.into;
    } finally {
      this.#running.delete(task);
      this.#load.pendingBytes -= request.info.byteLength;
      if (this.#running.size === 0) this.#scheduleStop();
    }
  }

  /**
   * Stops all workers. Reads that are waiting for a worker or being decoded by one reject with a `WorkerError`. Models
   * that use the pool then decode on the calling thread. Calling it again does nothing.
   */
  close(): void {
    this.#closed = true;
    for (const task of this.#running) task.fail(new WorkerError("The pool of workers was closed.", task.request.info.name));
    this.#stopAll();
  }

  /** Closes the pool at the end of a block: `using pool = workerPool()`. Present if the runtime has `Symbol.dispose`. */
  declare readonly [Symbol.dispose]: () => void;

  static {
    if (Symbol.dispose) Object.defineProperty(this.prototype, Symbol.dispose, { value: this.prototype.close });
  }

  #takes({ instance, model, index, info }: DecodeTarget, times = 1): boolean {
    return this.#load.workers > 0 && !this.#closed && (model.span || info.byteLength >= times * this.#minBytes) && !instance.call(() => model.isPlain(index));
  }

  /** Assigns waiting tensors to idle workers, the largest first, and starts more workers for the rest. */
  #assign(): void {
    this.#waiting = this.#waiting.filter((task) => !task.settled).sort((one, other) => other.priority - one.priority);
    for (const worker of this.#workers) {
      const task = worker.idle ? this.#waiting.shift() : undefined;
      if (task) this.#run(worker, task);
    }
    const starting = [...this.#workers].filter((worker) => worker.starting).length;
    for (let missing = this.#waiting.length - starting; missing > 0 && this.#workers.size < this.#load.workers; missing--) this.#startOne();
  }

  #run(worker: PoolWorker, task: Task): void {
    try {
      worker.run(task);
    } catch (cause) {
      if (cause instanceof ZstnError) return task.fail(cause);
      // The request could not be sent, for example because the module cannot be cloned. Nothing has been transferred,
      // and sending later tensors would fail as well.
      task.succeed(inline.decode(task.request));
      this.#giveUp(cause, 0);
    }
  }

  #startOne(): void {
    const events: PoolWorkerEvents = {
      onIdle: () => (this.#running.size === 0 ? this.#scheduleStop() : this.#assign()),
      onDecoded: (task) => (this.#load.decoded += task?.request.model.span ? 0 : 1),
      onExit: (worker, started, cause) => {
        this.#workers.delete(worker);
        if (!started) this.#giveUp(cause, this.#workers.size);
        this.#assign();
      },
    };
    try {
      this.#workers.add(new PoolWorker(this.#start, events));
    } catch (cause) {
      this.#giveUp(cause, this.#workers.size);
    }
  }

  /** Limits the pool to `maxSize` workers. With 0, everything is decoded on the calling thread. */
  #giveUp(cause: unknown, maxSize: number): void {
    this.#startError = cause;
    this.#load.workers = maxSize;
    if (maxSize > 0) return;
    for (const task of this.#waiting.splice(0)) if (!task.settled) task.succeed(inline.decode(task.request));
  }

  #scheduleStop(): void {
    clearTimeout(this.#idleTimer);
    if (this.#workers.size === 0) return;
    const holdsProcess = [...this.#workers].some((worker) => worker.holdsProcess);
    this.#idleTimer = setTimeout(() => this.#stopAll(), holdsProcess ? HOLDING_IDLE_MS : IDLE_MS);
    (this.#idleTimer as { unref?: () => void }).unref?.();
  }

  #stopAll(): void {
    clearTimeout(this.#idleTimer);
    for (const worker of this.#workers) worker.stop();
    this.#workers.clear();
  }
}
