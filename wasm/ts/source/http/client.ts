/** Makes the HTTP requests for one file. */

import { hasCode, ZstnError } from "../../errors.js";
import { abortable } from "../abortable.js";
import { uncached } from "../environment.js";
import type { IdleTimeout } from "./idle-timeout.js";
import { unanswered } from "./network-failure.js";
import { discard } from "./pending-response.js";
import type { PendingResponse } from "./pending-response.js";
import type { Traffic } from "../traffic.js";

export interface HttpClientOptions {
  fetch: typeof globalThis.fetch;
  /** The headers of every request. */
  headers: Headers;
  traffic: Traffic;
}

/** The conditions that end a request early. */
export interface RequestLimits {
  signal: AbortSignal | undefined;
  /** The idle timeout of the attempt that the request belongs to. */
  idle: IdleTimeout;
}

export class HttpClient {
  readonly url: string;
  readonly #options: HttpClientOptions;
  #hasAnswered = false;

  constructor(url: string, options: HttpClientOptions) {
    this.url = url;
    this.#options = options;
  }

  /** True if the server has ever responded. A server that never has is unlikely to respond a second later. */
  get hasAnswered(): boolean {
    return this.#hasAnswered;
  }

  /**
   * Makes a request, with `headers` in addition to the headers of every request, and calls `use` with the response,
   * whose body it reads. Rejects with a `NetworkError` if there is no response.
   */
  request<T>(method: "GET" | "HEAD", headers: Record<string, string>, { signal, idle }: RequestLimits, use: (response: PendingResponse) => Promise<T>): Promise<T> {
    const { traffic } = this.#options;
    return traffic.request(async () => {
      const either = signal ? AbortSignal.any([signal, idle.signal]) : idle.signal;
      const onBytes = (bytes: number) => {
        idle.received(bytes);
        traffic.arrived(bytes);
      };
      let response: Response | undefined;
      try {
        response = await this.#fetch(method, headers, either);
        this.#hasAnswered = true;
        idle.answered();
        return await use({ url: this.url, response, signal: either, onBytes });
      } catch (error) {
        if (response) discard(response);
        throw error;
      }
    });
  }

  async #fetch(method: "GET" | "HEAD", extra: Record<string, string>, signal: AbortSignal): Promise<Response> {
    const { fetch } = this.#options; // called without a receiver, as the `fetch` of browsers requires
    const headers = new Headers(this.#options.headers);
    for (const [name, value] of Object.entries(extra)) headers.set(name, value);
    try {
      // Every request goes to the original address. A redirect target may be valid for a short time only, and must not
      // receive the token.
      return await abortable(fetch(this.url, { method, headers, signal, ...uncached() }), signal);
    } catch (cause) {
      signal.throwIfAborted();
      if (cause instanceof ZstnError || hasCode(cause, "http")) throw cause; // thrown by a `fetch` that explains a refusal
      throw unanswered(this.url, cause);
    }
  }
}
