/** Decodes tensors inside the worker that owns the threads. */

import { decode, decodeFrame } from "../core/zstn_threads.js";
import type { WorkerRequest, WorkerResponse } from "../decode/message.js";
import { handleRequest } from "../decode/message.js";

/** Returns the response to a request, and the buffers to transfer with it. */
export function handle(request: WorkerRequest): [WorkerResponse, ArrayBuffer[]] {
  return handleRequest(request, ({ formats, task, parts, reference }) => (formats ? decode(task, parts, reference) : decodeFrame(task, parts[0]!)));
}
