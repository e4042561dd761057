/** Access tokens, each for one server. They are kept in memory alone. */

import type { Place } from "../engine/protocol.js";
import { webOrigin } from "../page/origin.js";

export class Tokens {
  readonly #byOrigin = new Map<string, string>();

  /** The token that was typed for that server. */
  at(origin: string | undefined): string | undefined {
    return origin === undefined ? undefined : this.#byOrigin.get(origin);
  }

  /** The token for the server that is asked for what is at `place`. */
  for(place: Place): string | undefined {
    return "address" in place ? this.at(webOrigin(place.address)) : undefined;
  }

  /** An empty token is none. */
  set(origin: string, token: string): void {
    if (token.trim() === "") this.#byOrigin.delete(origin);
    else this.#byOrigin.set(origin, token.trim());
  }
}
