/** One request and its answer. */

import { abortable } from "./abortable.js";
import { discard } from "./body.js";
import type { IdleTimeout } from "./idle-timeout.js";
import { unanswered } from "./network-failure.js";
import type { Traffic } from "./traffic.js";

/** An answer whose body is still to be read. */
export interface Answer {
  readonly url: string;
  readonly response: Response;
  /** Aborts when the caller gives up, and when too little arrives. */
  readonly signal: AbortSignal;
  /** Counts bytes of the body. */
  readonly arrived: (bytes: number) => void;
}

export interface WireOptions {
  fetch: typeof globalThis.fetch;
  /** For every request. */
  headers: Headers;
  traffic: Traffic;
}

/** What ends a request early. */
export interface RequestLimits {
  signal: AbortSignal | undefined;
  /** The progress of the attempt that the request is a part of. */
  idle: IdleTimeout;
}

export class Wire {
  readonly url: string;
  readonly #options: WireOptions;
  #hasAnswered = false;

  constructor(url: string, options: WireOptions) {
    this.url = url;
    this.#options = options;
  }

  /** Whether any request has had an answer. A server that never answered is not there, and will not be in a second. */
  get hasAnswered(): boolean {
    return this.#hasAnswered;
  }

  /** Makes a request, with `headers` besides those for every request, and gives the answer to `use`, which reads the body. */
  exchange<T>(method: "GET" | "HEAD", headers: Record<string, string>, { signal, idle }: RequestLimits, use: (answer: Answer) => Promise<T>): Promise<T> {
    const { traffic } = this.#options;
    return traffic.request(async () => {
      const either = signal ? AbortSignal.any([signal, idle.signal]) : idle.signal;
      const arrived = (bytes: number) => {
        idle.received(bytes);
        traffic.arrived(bytes);
      };
      let response: Response | undefined;
      try {
        response = await this.#fetch(method, headers, either);
        this.#hasAnswered = true;
        idle.answered();
        return await use({ url: this.url, response, signal: either, arrived });
      } catch (error) {
        if (response) discard(response);
        throw error;
      }
    });
  }

  async #fetch(method: "GET" | "HEAD", extra: Record<string, string>, signal: AbortSignal): Promise<Response> {
    const { fetch } = this.#options; // called without a receiver, as browsers demand of their own fetch
    const headers = new Headers(this.#options.headers);
    for (const [name, value] of Object.entries(extra)) headers.set(name, value);
    try {
      // A browser's cache would answer a range in pieces, of which some may be of an older file.
      // Always the address that was given: one that it redirects to may be valid for a short time only, and must not get the token.
      return await abortable(fetch(this.url, { method, headers, cache: "no-store", signal }), signal);
    } catch (cause) {
      signal.throwIfAborted();
      throw unanswered(this.url, cause);
    }
  }
}
