/** What the surroundings say about hubs, and how requests are made. */

import type { Toolkit } from "../source/http/toolkit.js";

/** The person's settings for hubs. */
export interface HubEnvironment {
  /** Returns the URL of the hub that names mean; `undefined` for Hugging Face. */
  endpoint: () => string | undefined;
  /** Returns the person's token for that hub; `undefined` if there is none. */
  token: () => Promise<string | undefined>;
  /** Returns how to log in, as the end of a sentence. */
  logIn: () => string;
}

/** The settings of a page: there are none. */
export const pageEnvironment: HubEnvironment = { endpoint: () => undefined, token: async () => undefined, logIn: () => "pass a `token` that may read it" };

let current: HubEnvironment & Toolkit;

/** Sets the settings, which an entry does when it is loaded. */
export function setEnvironment(environment: HubEnvironment, toolkit: Toolkit): void {
  current = { ...environment, ...toolkit };
}

/** Returns the settings, and the functions for requests. */
export const environment = (): HubEnvironment & Toolkit => current;
