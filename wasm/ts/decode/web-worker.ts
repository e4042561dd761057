/** The script of a decoding worker in browsers: the entry `zstn/worker`. */

import { decode } from "./instance.js";
import { answer } from "./message.js";
import type { Request } from "./message.js";

/** What is used of a worker's global scope; the types of pages do not know it. */
interface Scope {
  postMessage(message: unknown, transfer?: Transferable[]): void;
  onmessage: ((event: MessageEvent<Request>) => void) | null;
}

const scope = globalThis as unknown as Scope;
scope.onmessage = ({ data }) => scope.postMessage(...answer(data, decode));
scope.postMessage({ ready: true });
