/** Searches by regular expression in a worker, so that a slow expression cannot block the page. */

import type { TensorInfo } from "zstn";

export interface ExpressionRequest {
  readonly expression: string;
  readonly names: readonly string[];
}

/** The replies of the worker: first that matching has begun, then the positions of the matching names. */
export type ExpressionReply = "begun" | readonly number[];

/** The time limit of an expression, in milliseconds, once the worker is running. */
const LIMIT_MS = 300;

export interface ExpressionResult {
  /** The tensors whose names match; empty while the worker runs. */
  readonly found: ReadonlySet<TensorInfo>;
  readonly isRunning?: boolean;
  /** A sentence for the user that explains why there is no result. */
  readonly problem?: string;
}

export class ExpressionSearch {
  readonly #tensors: readonly TensorInfo[];
  readonly #onResult: () => void;
  #expression: string | undefined;
  #result: ExpressionResult = { found: new Set() };
  #worker: Worker | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** `onResult` is called when the result of the latest expression is available. */
  constructor(tensors: readonly TensorInfo[], onResult: () => void) {
    this.#tensors = tensors;
    this.#onResult = onResult;
  }

  /** Returns the result of an expression. A new expression starts a search. */
  find(expression: string): ExpressionResult {
    if (expression !== this.#expression) this.#start(expression);
    return this.#result;
  }

  /** Cancels a search that is no longer needed. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#worker?.terminate();
    this.#worker = undefined;
    if (this.#result.isRunning) this.#expression = undefined;
  }

  #start(expression: string): void {
    this.stop();
    this.#expression = expression;
    this.#result = { found: new Set(), isRunning: true };
    const worker = new Worker(new URL("./expression-worker.ts", import.meta.url), { type: "module" });
    this.#worker = worker;
    worker.onmessage = ({ data }: MessageEvent<ExpressionReply>) => {
      if (data === "begun") this.#timer = setTimeout(() => this.#end({ found: new Set(), problem: "This expression takes too long." }), LIMIT_MS);
      else this.#end({ found: new Set(data.map((i) => this.#tensors[i]!)) });
    };
    worker.onerror = () => this.#end({ found: new Set(), problem: "Can't search for this pattern." });
    worker.postMessage({ expression, names: this.#tensors.map(({ name }) => name) } satisfies ExpressionRequest);
  }

  #end(result: ExpressionResult): void {
    this.#result = result;
    this.stop();
    this.#onResult();
  }
}
