/** The route: the state of the page that its URL holds, so that a view can be shared. */

/** The pictures of the overview. */
export type Picture = "changes" | "treemap" | "layers";

export interface Route {
  /** The first model: a URL, or a repository of a hub. */
  readonly src?: string | undefined;
  /** The second model. */
  readonly with?: string | undefined;
  readonly tensor?: string | undefined;
  /** The hub, if it is not Hugging Face. */
  readonly hub?: string | undefined;
  readonly view?: "pack" | undefined;
  /** How two tensors are compared. */
  readonly mode?: string | undefined;
  /** The tensor of the second model, if it has another name. */
  readonly against?: string | undefined;
  /** The view of the tensor: the part in view, shading, cells and pinned cell (`tensor/view-state.ts`). */
  readonly at?: string | undefined;
  readonly shade?: string | undefined;
  readonly cells?: string | undefined;
  readonly pin?: string | undefined;
  /** The picture of the overview, and the metric that colours it. */
  readonly picture?: Picture | undefined;
  readonly colour?: string | undefined;
  /** What the area of a tensor in the treemap means, if it is not the stored size. */
  readonly area?: "original" | undefined;
  /** The list of tensors: its search, filter and order. */
  readonly q?: string | undefined;
  readonly dtype?: string | undefined;
  readonly order?: string | undefined;
}

/** All parameters in the order in which they are written; those with a few values only, with these. */
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
  picture: ["changes", "treemap", "layers"] satisfies Picture[],
  colour: undefined,
  area: ["original"],
  q: undefined,
  dtype: undefined,
  order: undefined,
};
const NAMES = Object.keys(PARAMETERS) as (keyof Route)[];

/** Returns the route without the tensor that is shown, and without how it is shown. */
export const overviewOf = ({ tensor, mode, against, at, shade, cells, pin, ...rest }: Route): Route => rest;

/** Returns the route of the URL. Values that mean nothing are left out. */
export function readRoute(): Route {
  const asked = new URLSearchParams(location.search);
  const entries = NAMES.flatMap((name) => {
    const value = asked.get(name);
    return value && (PARAMETERS[name]?.includes(value) ?? true) ? [[name, value] as const] : [];
  });
  return Object.fromEntries(entries) as Route;
}

/** Returns the URL of a route. */
export function urlOf(route: Route): URL {
  const url = new URL(location.pathname, location.href);
  for (const name of NAMES) if (route[name]) url.searchParams.set(name, route[name]);
  return url;
}

/** How many writes of the URL go through at once within a time, in milliseconds. Safari throws after 100 in 30 seconds. */
const MAX_WRITES = 50;
const WRITES_MS = 30_000;
/** How long after the last of too many changes the URL follows, in milliseconds. */
const DELAY_MS = 250;

let writeTimes: number[] = [];
let pending: { url: URL; state: unknown } | undefined;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Writes the route to the URL, as a new history entry unless `replace`. `state` is kept with the entry. Of many changes, only the last may be written, a little later. */
export function writeRoute(route: Route, replace = false, state: unknown = null): void {
  const url = urlOf(route);
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

/** Writes a change that waits, so that the URL is that of what is shown. */
export function flushRoute(): void {
  clearTimeout(timer);
  if (!pending) return;
  if (write("replaceState", pending.url, pending.state)) pending = undefined;
  else timer = setTimeout(flushRoute, 20 * DELAY_MS);
}

/** Forgets a change that waits, after navigation to another entry. */
export function forgetPendingRoute(): void {
  clearTimeout(timer);
  pending = undefined;
}

/** Returns `false` if the browser refuses another write for now. */
function write(how: "pushState" | "replaceState", url: URL, state: unknown): boolean {
  try {
    history[how](state, "", url);
    writeTimes.push(performance.now());
    return true;
  } catch {
    return false;
  }
}
