/** The user's hub settings, and the functions that make requests. */

import type { HttpFunctions } from "../source/http/http-functions.js";

/** The user's settings for hubs. */
export interface HubEnvironment {
  /** Returns the URL of the hub that names refer to; `undefined` for Hugging Face. */
  endpoint: () => string | undefined;
  /** Returns the user's token for that hub; `undefined` if there is none. */
  token: () => Promise<string | undefined>;
  /** Returns advice on how to log in, as the end of a sentence. */
  logIn: () => string;
}

/** The environment of a page, which has no settings. */
export const pageEnvironment: HubEnvironment = { endpoint: () => undefined, token: async () => undefined, logIn: () => "pass a `token` that may read it" };

let current: HubEnvironment & HttpFunctions;

/** Sets the user's settings and the request functions. Each entry of `zstn/hub` calls this when it is loaded. */
export function setEnvironment(environment: HubEnvironment, httpFunctions: HttpFunctions): void {
  current = { ...environment, ...httpFunctions };
}

/** Returns the settings and the request functions. */
export const environment = (): HubEnvironment & HttpFunctions => current;
