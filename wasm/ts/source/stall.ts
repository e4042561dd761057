/** Notices when nothing arrives any more. */

/** A signal that aborts, with the error `failure` makes, once `limitMs` have passed since it was made or last fed. */
export class StallWatch {
  readonly #controller = new AbortController();
  readonly #limitMs: number;
  readonly #failure: () => Error;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(limitMs: number, failure: () => Error) {
    this.#limitMs = limitMs;
    this.#failure = failure;
    this.feed();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Something has arrived. */
  feed(): void {
    this.stop();
    this.#timer = setTimeout(() => this.#controller.abort(this.#failure()), this.#limitMs);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
