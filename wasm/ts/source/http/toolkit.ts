/**
 * Parts of reading over HTTP for modules that are loaded when they are needed. They are handed over: of what two chunks
 * import, bundlers make further chunks, which are compressed one by one and took 1 kB more of every page.
 */

import { abortable } from "../abortable.js";
import { systemClock } from "../clock.js";
import { mayPass, retrying } from "../retry.js";
import { uncached } from "../environment.js";
import { shortened, statusMessage } from "./message.js";
import { unanswered } from "./network-failure.js";
import { resolveHttpOptions } from "./options.js";
import { parseRetryAfter } from "./retry-after.js";

export const toolkit = { abortable, mayPass, parseRetryAfter, resolveHttpOptions, retrying, shortened, statusMessage, systemClock, unanswered, uncached };

export type Toolkit = typeof toolkit;
