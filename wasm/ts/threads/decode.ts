/** Decodes tensors inside the worker that owns the threads. */

import { decode } from "../core/zstn_threads.js";
import type { WorkerRequest, WorkerResponse } from "../decode/message.js";
import { handleRequest } from "../decode/message.js";

/** Returns the response to a request, and the buffers to transfer with it. */
export function handle(request: WorkerRequest): [WorkerResponse, ArrayBuffer[]] {
  return handleRequest(request, ({ task, parts, reference }) => decode(task, parts, reference));
}
