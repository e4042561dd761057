/** Decoding inside the worker that the threads belong to. */

import { decode } from "../core/zstn_threads.js";
import type { Answer, Request } from "../decode/message.js";
import { answer } from "../decode/message.js";

/** The answer to a request, and what of it is handed over. */
export function decoded(request: Request): [Answer, ArrayBuffer[]] {
  return answer(request, ({ recipe, parts, reference }) => decode(recipe, parts, reference));
}
