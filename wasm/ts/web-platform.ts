/** The platform of pages and their workers: URLs are resolved against the page, and the WebAssembly modules are fetched. */

import { coreCount, isWorkerOfFirefox, startWebWorker } from "./decode/web-worker-handle.js";
import { pageAddress } from "./page-address.js";
import { setPlatform } from "./platform.js";
import { httpFunctions } from "./source/http/http-functions.js";

/** Sets the platform, and returns a function that needs it. */
export function onWeb<Call>(call: Call): Call {
  setPlatform({ readModule: (address) => fetch(address), startWorker: startWebWorker, avoidsWorkers: isWorkerOfFirefox, coreCount, resolve: pageAddress, loadHub: () => import("./hub/for-open.js").then(({ hubWith }) => hubWith(httpFunctions)) });
  return call;
}
