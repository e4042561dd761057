/** The route: the state of the page that its URL holds, so that a view can be shared. */

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
}

const NAMES = ["src", "with", "tensor", "hub", "view", "mode", "against"] as const;

export function readRoute(): Route {
  const asked = new URLSearchParams(location.search);
  const entries = NAMES.flatMap((name) => (asked.get(name) ? [[name, asked.get(name)] as const] : []));
  return Object.fromEntries(entries) as Route;
}

/** Writes the route to the URL, as a new history entry unless `replace`. */
export function writeRoute(route: Route, replace = false): void {
  const url = new URL(location.pathname, location.href);
  for (const name of NAMES) if (route[name]) url.searchParams.set(name, route[name]);
  if (url.href === location.href) return;
  if (replace) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
}
