/**
 * Functions for reading over HTTP, for modules that are loaded on demand. They are passed as an object instead of
 * imported: bundlers would move modules that two chunks import into further chunks, which are compressed separately and
 * would add 1 kB to every page.
 */

import { abortable } from "../abortable.js";
import { systemClock } from "../clock.js";
import { mayPass, retrying } from "../retry.js";
import { uncached } from "../environment.js";
import { shortened, statusMessage } from "./error-message.js";
import { unanswered } from "./network-failure.js";
import { resolveHttpOptions } from "./options.js";
import { parseRetryAfter } from "./retry-after.js";

export const httpFunctions = { abortable, mayPass, parseRetryAfter, resolveHttpOptions, retrying, shortened, statusMessage, systemClock, unanswered, uncached };

export type HttpFunctions = typeof httpFunctions;
