/** The module that `open` loads in pages for an `hf://` address. */

import type { Toolkit } from "../source/http/toolkit.js";
import { pageEnvironment, setEnvironment } from "./environment.js";
import { hub } from "./hub.js";

/** Returns the function that creates an input from an address. */
export function hubWith(toolkit: Toolkit): { hub: typeof hub } {
  setEnvironment(pageEnvironment, toolkit);
  return { hub };
}
