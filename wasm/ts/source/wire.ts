/** One request and its answer. */

import { NetworkError } from "../errors.js";
import { abortable } from "./abortable.js";
import { discard } from "./body.js";
import { shortened } from "./http-message.js";
import { StallWatch } from "./stall.js";
import type { Traffic } from "./traffic.js";

/** An answer whose body is still to be read. */
export interface Answer {
  readonly url: string;
  readonly response: Response;
  /** Aborts when the caller gives up, and when nothing arrives any more. */
  readonly signal: AbortSignal;
  /** To be told of all bytes of the body. */
  readonly arrived: (bytes: number) => void;
}

export interface WireOptions {
  fetch: typeof globalThis.fetch;
  /** For every request. */
  headers: Headers;
  /** How long nothing may arrive, in milliseconds. */
  stallMs: number;
  traffic: Traffic;
}

export class Wire {
  readonly url: string;
  readonly #options: WireOptions;

  constructor(url: string, options: WireOptions) {
    this.url = url;
    this.#options = options;
  }

  /** Makes a request, with `headers` besides those for every request, and gives the answer to `use`, which reads the body. */
  exchange<T>(method: "GET" | "HEAD", headers: Record<string, string>, signal: AbortSignal | undefined, use: (answer: Answer) => Promise<T>): Promise<T> {
    const { traffic, stallMs } = this.#options;
    return traffic.request(async () => {
      const watch = new StallWatch(stallMs, () => this.#stalled());
      const either = signal ? AbortSignal.any([signal, watch.signal]) : watch.signal;
      const arrived = (bytes: number) => {
        watch.feed();
        traffic.arrived(bytes);
      };
      let response: Response | undefined;
      try {
        response = await this.#fetch(method, headers, either);
        watch.feed();
        return await use({ url: this.url, response, signal: either, arrived });
      } catch (error) {
        if (response) discard(response);
        throw error;
      } finally {
        watch.stop();
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
      throw new NetworkError(
        this.url,
        `Could not reach ${shortened(this.url)}. Check the address and the connection; for use from web pages the server must also allow it (CORS), and must not compress what it sends.`,
        { cause },
      );
    }
  }

  #stalled(): NetworkError {
    const seconds = this.#options.stallMs / 1000;
    return new NetworkError(this.url, `Nothing came from ${shortened(this.url)} for ${seconds} seconds. Try again later, or allow more time in the option \`stallMs\`.`);
  }
}
