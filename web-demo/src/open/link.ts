/** Links to the page, in which names of repositories may stand for those of another hub. */

import { readRoute } from "../page/route.js";
import type { Route } from "../page/route.js";
import { HUGGING_FACE, hubAt, isBelow, spelledOut } from "./parse-input.js";

/**
 * What the address bar asks for. Names that the link means for its own hub become addresses there: a name without
 * one is Hugging Face's everywhere else, and nobody takes the one hub for the other.
 */
export function readLink(): Route {
  const route = withoutUserinfo(readRoute());
  if (route.hub === undefined) return route;
  const hub = hubAt(route.hub);
  if (hub === undefined) throw new Error(`The hub of this link is not a web address: ${route.hub}`);
  if (hub === HUGGING_FACE) return { ...route, hub: undefined };
  return { ...route, hub, src: atHub(route.src, hub), with: atHub(route.with, hub) };
}

/** The route as it is written: with `hub` where something below that is open, and only there. */
export function linkFor(shown: Route, hub: string | undefined): Route {
  const route = withoutUserinfo(shown);
  const { src, with: second } = route;
  if (hub === undefined || ![src, second].some((text) => text !== undefined && isBelow(hub, text))) return { ...route, hub: undefined };
  return { ...route, hub, src: atHub(src, HUGGING_FACE), with: atHub(second, HUGGING_FACE) };
}

/** Returns a route whose addresses have no user name and no password: links are shared. */
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
