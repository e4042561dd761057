/** Searches by regular expression in a worker, so that a slow expression cannot block the page. */

import type { TensorColumns } from "../engine/tensor-table.js";

export interface ExpressionRequest {
  readonly expression: string;
  readonly columns: Pick<TensorColumns, "size" | "names" | "nameEnds">;
}

/** The replies of the worker: first that matching has begun, then the indices of the tensors whose names match. */
export type ExpressionReply = "begun" | Int32Array<ArrayBuffer>;

/** The time limit of an expression, in milliseconds, once the worker is running. */
const LIMIT_MS = 300;

const NONE = new Int32Array();

export interface ExpressionResult {
  /** The indices of the tensors whose names match; empty while the worker runs. */
  readonly found: Int32Array<ArrayBuffer>;
  readonly isRunning?: boolean;
  /** A sentence for the user that explains why there is no result. */
  readonly problem?: string;
}

export class ExpressionSearch {
  readonly #columns: ExpressionRequest["columns"];
  readonly #onResult: () => void;
  #expression: string | undefined;
  #result: ExpressionResult = { found: NONE };
  #worker: Worker | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** `onResult` is called when the result of the latest expression is available. */
  constructor({ size, names, nameEnds }: TensorColumns, onResult: () => void) {
    this.#columns = { size, names, nameEnds };
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
    this.#result = { found: NONE, isRunning: true };
    const worker = new Worker(new URL("./expression-worker.ts", import.meta.url), { type: "module" });
    this.#worker = worker;
    worker.onmessage = ({ data }: MessageEvent<ExpressionReply>) => {
      if (data === "begun") this.#timer = setTimeout(() => this.#end({ found: NONE, problem: "This expression takes too long." }), LIMIT_MS);
      else this.#end({ found: data });
    };
    worker.onerror = () => this.#end({ found: NONE, problem: "Can't search for this pattern." });
    worker.postMessage({ expression, columns: this.#columns } satisfies ExpressionRequest);
  }

  #end(result: ExpressionResult): void {
    this.#result = result;
    this.stop();
    this.#onResult();
  }
}
