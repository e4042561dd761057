/** Access tokens, one for each server, stored only in memory. */

import type { ModelSource } from "../engine/protocol.js";
import { webOrigin } from "../page/origin.js";

export class Tokens {
  readonly #byOrigin = new Map<string, string>();

  /** The tokens by the origins of their servers. */
  get byOrigin(): ReadonlyMap<string, string> {
    return this.#byOrigin;
  }

  /** Returns the token for the server with this origin. */
  at(origin: string | undefined): string | undefined {
    return origin === undefined ? undefined : this.#byOrigin.get(origin);
  }

  /** Returns the token for the server of `source`. */
  for(source: ModelSource): string | undefined {
    return "address" in source ? this.at(webOrigin(source.address)) : undefined;
  }

  /** Sets the token for a server. An empty one removes it. */
  set(origin: string, token: string): void {
    if (token.trim() === "") this.#byOrigin.delete(origin);
    else this.#byOrigin.set(origin, token.trim());
  }
}
