/** Instances of WebAssembly modules. */

import { toZstnError } from "./core-errors.js";
import { InternalError, ModelClosedError } from "./errors.js";

/** A running instance of a module. After a trap its memory may be inconsistent, so the instance is not called again. */
export class Instance<T> {
  readonly #api: T;
  readonly #onTrap: () => void;
  #trapped = false;

  constructor(api: T, onTrap: () => void) {
    this.#api = api;
    this.#onTrap = onTrap;
  }

  /** Calls into the instance. Everything that the call throws is rethrown as a `ZstnError`. */
  call<R>(work: (api: T) => R): R {
    this.check();
    try {
      return work(this.#api);
    } catch (thrown) {
      const error = toZstnError(thrown);
      if (error instanceof InternalError) {
        this.#trapped = true;
        this.#onTrap();
      }
      throw error;
    }
  }

  /** Throws a `ModelClosedError` if the instance has trapped. */
  check(): void {
    if (this.#trapped) throw new ModelClosedError("The WebAssembly core stopped unexpectedly. Open the model again, or begin to pack again.");
  }

  /** Frees an object of the instance. Does nothing after a trap, when the whole memory of the instance is abandoned. */
  free(object: { free(): void } | undefined): void {
    if (!this.#trapped) object?.free();
  }
}
