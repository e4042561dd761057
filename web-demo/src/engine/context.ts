/** The signal and the progress callback of a call to the worker. */

import type { Step } from "./protocol.js";

export interface Context {
  readonly signal: AbortSignal;
  readonly onStep: (step: Step) => void;
}
