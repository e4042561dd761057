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
  /** The indices of the tensors whose names match. */
  readonly found: Int32Array<ArrayBuffer>;
  /** A sentence for the user that explains why there is no result. */
  readonly problem?: string;
}

export class ExpressionSearch {
  readonly #columns: ExpressionRequest["columns"];
  #expression: string | undefined;
  #result: Promise<ExpressionResult> = Promise.resolve({ found: NONE });
  /** Ends the search that is running with a result. */
  #end: ((result: ExpressionResult) => void) | undefined;

  constructor({ size, names, nameEnds }: TensorColumns) {
    this.#columns = { size, names, nameEnds };
  }

  get isRunning(): boolean {
    return this.#end !== undefined;
  }

  /** Returns the result of an expression. A new expression starts a search, and stops the previous one. */
  find(expression: string): Promise<ExpressionResult> {
    if (expression === this.#expression) return this.#result;
    this.stop();
    this.#expression = expression;
    return (this.#result = this.#start(expression));
  }

  /** Stops the running search, whose promise then resolves without matches. */
  stop(): void {
    if (this.isRunning) this.#expression = undefined;
    this.#end?.({ found: NONE });
  }

  #start(expression: string): Promise<ExpressionResult> {
    const worker = new Worker(new URL("./expression-worker.ts", import.meta.url), { type: "module" });
    worker.postMessage({ expression, columns: this.#columns } satisfies ExpressionRequest);
    return new Promise((resolve) => {
      let timer: ReturnType<typeof setTimeout> | undefined;
      const end = (this.#end = (result) => {
        clearTimeout(timer);
        worker.terminate();
        this.#end = undefined;
        resolve(result);
      });
      worker.onmessage = ({ data }: MessageEvent<ExpressionReply>) => {
        if (data === "begun") timer = setTimeout(() => end({ found: NONE, problem: "This expression takes too long." }), LIMIT_MS);
        else end({ found: data });
      };
      worker.onerror = () => end({ found: NONE, problem: "Can't search for this pattern." });
    });
  }
}
