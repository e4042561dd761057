/** The module that `open` loads in pages for an `hf://` address. */

import type { HttpFunctions } from "../source/http/http-functions.js";
import { pageEnvironment, setEnvironment } from "./environment.js";
import { hub } from "./hub-input.js";

/** Returns the function that creates an input from an address. */
export function hubWith(httpFunctions: HttpFunctions): { hub: typeof hub } {
  setEnvironment(pageEnvironment, httpFunctions);
  return { hub };
}
