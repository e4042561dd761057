/** What the address of the page says, so that a view can be sent to someone. */

export interface Route {
  /** What is open: an address, or a repository of the hub. */
  readonly src?: string | undefined;
  /** The second model. */
  readonly with?: string | undefined;
  readonly tensor?: string | undefined;
  /** Where repositories are, if not the usual place. */
  readonly hub?: string | undefined;
  readonly view?: "pack" | undefined;
  /** How two tensors are shown. */
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

/** Makes the address say it; a new step of the history unless the view is the same in other clothes. */
export function writeRoute(route: Route, replace = false): void {
  const url = new URL(location.pathname, location.href);
  for (const name of NAMES) if (route[name]) url.searchParams.set(name, route[name]);
  if (url.href === location.href) return;
  if (replace) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
}
