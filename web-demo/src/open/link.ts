/** Links to the page. The repository names in a link may refer to another hub than Hugging Face. */

import { readRoute } from "../page/route.js";
import type { Route } from "../page/route.js";
import { HUGGING_FACE, hubAt, isBelow, spelledOut } from "./parse-input.js";

/**
 * Returns the route in the address bar. Repository names that a link means for its own hub become URLs at that hub.
 * Everywhere else in the page, a name without a hub refers to Hugging Face, so the two cannot be confused. Throws if
 * the hub is not a web address.
 */
export function readLink(): Route {
  const route = withoutUserinfo(readRoute());
  if (route.hub === undefined) return route;
  const hub = hubAt(route.hub);
  if (hub === undefined) throw new Error(`The hub of this link is not a web address: ${route.hub}`);
  if (hub === HUGGING_FACE) return { ...route, hub: undefined };
  return { ...route, hub, src: atHub(route.src, hub), with: atHub(route.with, hub) };
}

/** Returns the route for the address bar. It has a `hub` only if an address below that hub is open. */
export function linkFor(shown: Route, hub: string | undefined): Route {
  const route = withoutUserinfo(shown);
  const { src, with: second } = route;
  if (hub === undefined || ![src, second].some((text) => text !== undefined && isBelow(hub, text))) return { ...route, hub: undefined };
  return { ...route, hub, src: atHub(src, HUGGING_FACE), with: atHub(second, HUGGING_FACE) };
}

/** Returns the route with user names and passwords removed from its addresses, because links are shared. */
function withoutUserinfo(route: Route): Route {
  const { src, with: second } = route;
  const cleaned = (text: string | undefined): string | undefined => {
    if (text === undefined || !URL.canParse(text)) return text;
    const url = new URL(text);
    if (url.username === "" && url.password === "") return text;
    [url.username, url.password] = ["", ""];
    return url.href;
  };
  return { ...route, ...(src !== undefined && { src: cleaned(src) }), ...(second !== undefined && { with: cleaned(second) }) };
}

const atHub = (text: string | undefined, hub: string): string | undefined => (text === undefined ? undefined : spelledOut(text, hub));
