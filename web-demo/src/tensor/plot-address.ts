/** The page address that a saved image shows. */

import { urlOf } from "../page/route.js";
import type { Route } from "../page/route.js";

/**
 * Returns the address of a route, without parts that may be secret: user names, passwords and queries of the addresses
 * in it. Returns an empty text for local files, which have no address.
 */
export function plotAddress(route: Route): string {
  if (route.src === undefined) return "";
  const { src, with: second, hub } = route;
  const url = urlOf({ ...route, src: withoutSecrets(src), with: second && withoutSecrets(second), hub: hub && withoutSecrets(hub) });
  url.username = url.password = "";
  // Slashes and colons need no encoding in a query.
  return url.href.replaceAll("%2F", "/").replaceAll("%3A", ":");
}

/** Removes user name, password, query and fragment. A query can contain a signature. */
const withoutSecrets = (address: string): string => address.replace(/[?#].*$/s, "").replace(/^([a-z][a-z\d+.-]*:)?\/\/[^/]*@/i, "$1//");
