/** The script of a decoding worker in browsers: the entry `zstn/worker`. */

import { handleRequest } from "./message.js";
import type { WorkerRequest } from "./message.js";
import { decode } from "./worker-decode.js";

/** The members of a worker's global scope that this script uses. The DOM types do not declare them. */
interface Scope {
  postMessage(message: unknown, transfer?: Transferable[]): void;
  onmessage: ((event: MessageEvent<WorkerRequest>) => void) | null;
}

const scope = globalThis as unknown as Scope;
scope.onmessage = ({ data }) => scope.postMessage(...handleRequest(data, decode));
scope.postMessage({ ready: true });
