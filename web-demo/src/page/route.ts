/** The route: the state of the page that its URL contains, so that a view can be shared. */

/** The pictures of the overview. */
export type Picture = "changes" | "treemap" | "layers";

export interface Route {
  /** The first model: a URL, or a repository name. */
  readonly src?: string | undefined;
  /** The second model, in the same notation as `src`. */
  readonly with?: string | undefined;
  readonly tensor?: string | undefined;
  /** The hub, if it is not Hugging Face. */
  readonly hub?: string | undefined;
  readonly view?: "pack" | undefined;
  /** The comparison mode of the tensor view (`Mode` of `tensor/view.ts`). */
  readonly mode?: string | undefined;
  /** The tensor of the second model, if it has another name. */
  readonly against?: string | undefined;
  /** The view of the tensor: the visible area, shading, cells, pinned cell, values and slice (`tensor/view-state.ts`). */
  readonly at?: string | undefined;
  readonly shade?: string | undefined;
  readonly cells?: string | undefined;
  readonly pin?: string | undefined;
  readonly values?: string | undefined;
  readonly slice?: string | undefined;
  /** The picture of the overview, and the metric that colours it. */
  readonly picture?: Picture | undefined;
  readonly colour?: string | undefined;
  /** The meaning of the area of a tensor in the treemap, if it is not the stored size. */
  readonly area?: "original" | undefined;
  /** The list of tensors: its search, filter and order. */
  readonly q?: string | undefined;
  readonly dtype?: string | undefined;
  readonly order?: string | undefined;
}

/**
 * All parameters, in the order of their appearance in an address. A parameter with a fixed set of values has a list of
 * these values.
 */
const PARAMETERS: Readonly<Record<keyof Route, readonly string[] | undefined>> = {
  src: undefined,
  with: undefined,
  tensor: undefined,
  hub: undefined,
  view: ["pack"],
  mode: undefined,
  against: undefined,
  at: undefined,
  shade: ["mean", "rms"],
  cells: ["square"],
  pin: undefined,
  values: ["stored"],
  slice: undefined,
  picture: ["changes", "treemap", "layers"] satisfies Picture[],
  colour: undefined,
  area: ["original"],
  q: undefined,
  dtype: undefined,
  order: undefined,
};
export const NAMES = Object.keys(PARAMETERS) as (keyof Route)[];

/** Parameters that concern the page as a whole (`page/appearance.ts`). They are not part of a route, nor of its link. */
const PAGE_PARAMETERS = ["embed", "theme"] as const;

/** Returns a parameter of the page from its URL. */
export const pageParameter = (name: (typeof PAGE_PARAMETERS)[number]): string | null => new URLSearchParams(location.search).get(name);

/** Returns the route without the tensor that is shown and the state of its view. */
export const overviewOf = ({ tensor, mode, against, at, shade, cells, pin, values, slice, ...rest }: Route): Route => rest;

/** Returns whether a parameter has a value. Only the name of a tensor may be empty: a NumPy array has no other. */
const isSet = (name: keyof Route, value: string | null | undefined): value is string => value === "" ? name === "tensor" : typeof value === "string";

/** Returns the route in the URL. Invalid values are left out. */
export function readRoute(): Route {
  const asked = new URLSearchParams(location.search);
  const entries = NAMES.flatMap((name) => {
    const value = asked.get(name);
    return isSet(name, value) && (PARAMETERS[name]?.includes(value) ?? true) ? [[name, value] as const] : [];
  });
  return Object.fromEntries(entries) as Route;
}

/** Returns the link to a view: the URL of this page with the route as its only query parameters. */
export function urlOf(route: Route): URL {
  const url = new URL(location.pathname, location.href);
  for (const name of NAMES) {
    const value = route[name];
    if (isSet(name, value)) url.searchParams.set(name, value);
  }
  return url;
}

/** The maximum number of immediate writes of the URL within `WRITES_MS` milliseconds. Safari throws after 100 in 30 seconds. */
const MAX_WRITES = 50;
const WRITES_MS = 30_000;
/** The delay after which the URL is updated if there are too many changes, in milliseconds. */
const DELAY_MS = 250;

let writeTimes: number[] = [];
let pending: { url: URL; state: unknown } | undefined;
let timer: ReturnType<typeof setTimeout> | undefined;

/**
 * Writes the route to the URL, as a new history entry unless `replace` is set. `state` is stored in the entry. If there
 * are many changes, only the last one may be written, after a short delay.
 */
export function writeRoute(route: Route, replace = false, state: unknown = null): void {
  const url = urlOf(route);
  for (const name of PAGE_PARAMETERS) {
    const value = pageParameter(name);
    if (value !== null) url.searchParams.set(name, value);
  }
  if (!pending && url.href === location.href && state === null) return;
  if (replace || url.href === location.href) {
    clearTimeout(timer);
    pending = { url, state };
    writeTimes = writeTimes.filter((time) => time > performance.now() - WRITES_MS);
    if (writeTimes.length < MAX_WRITES) flushRoute();
    else timer = setTimeout(flushRoute, DELAY_MS);
  } else {
    flushRoute();
    if (!write("pushState", url, state)) pending = { url, state };
  }
}

/** Writes a pending change, so that the URL matches the current view. */
export function flushRoute(): void {
  clearTimeout(timer);
  if (!pending) return;
  if (write("replaceState", pending.url, pending.state)) pending = undefined;
  else timer = setTimeout(flushRoute, 20 * DELAY_MS);
}

/** Discards a pending change after navigation to another history entry. */
export function forgetPendingRoute(): void {
  clearTimeout(timer);
  pending = undefined;
}

/** Writes a history entry. Returns `false` if the browser temporarily refuses another write. */
function write(how: "pushState" | "replaceState", url: URL, state: unknown): boolean {
  try {
    history[how](state, "", url);
    writeTimes.push(performance.now());
    return true;
  } catch {
    return false;
  }
}
