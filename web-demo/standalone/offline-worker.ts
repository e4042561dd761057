/**
 * The service worker of the published page: it caches the page's own files, so that the page works without a network.
 * It never touches other requests, and thereby neither models nor tokens.
 */

// `plugin.ts` sets these.
/** The files of this build, relative to the page; empty if the build has no offline mode. */
declare const FILES: readonly string[];
/** The files that are cached at once. The large WebAssembly modules are cached when the page first uses them. */
declare const FIRST_FILES: readonly string[];
/** The path of the entry script, which differs between builds. */
declare const ENTRY: string;
/** A digest of all files of this build. */
declare const BUILD: string;

interface LifetimeEvent extends Event {
  waitUntil: (work: Promise<unknown>) => void;
}

interface RequestEvent extends LifetimeEvent {
  readonly request: Request;
  respondWith: (response: Promise<Response>) => void;
}

interface WorkerScope {
  readonly registration: ServiceWorkerRegistration;
  readonly clients: { claim: () => Promise<void> };
  skipWaiting: () => Promise<void>;
  addEventListener: ((name: "install" | "activate", listener: (event: LifetimeEvent) => void) => void) & ((name: "fetch", listener: (event: RequestEvent) => void) => void);
}

/** The types of the page describe another global scope. */
const worker = globalThis as unknown as WorkerScope;

/** The time after which the cached page is shown instead of waiting for the network, in milliseconds. */
const PATIENCE_MS = 4000;

const { scope } = worker.registration;
/** Pages in other folders of this origin have caches of their own. */
const PREFIX = `zstn ${scope} `;
const CACHE = PREFIX + BUILD;
const MATCH: CacheQueryOptions = { ignoreVary: true };
const files = FILES;
const addresses = new Set(files.map((name) => new URL(name, scope).href));

worker.addEventListener("install", (event) => event.waitUntil(install()));
worker.addEventListener("activate", (event) => event.waitUntil(activate()));
if (files.length > 0) {
  worker.addEventListener("fetch", (event) => {
    const { request } = event;
    const { origin, pathname } = new URL(request.url);
    const address = origin + pathname;
    if (request.method !== "GET" || request.headers.has("range")) return;
    if (request.mode === "navigate" && (address === scope || address === `${scope}index.html`)) event.respondWith(page(request));
    // Open pages of the previous build still load files of that build.
    else if (addresses.has(address) || address.startsWith(`${scope}assets/`)) event.respondWith(file(request, event));
  });
}

/** Caches the page and the files that every visit needs. */
async function install(): Promise<void> {
  await worker.skipWaiting();
  if (files.length === 0) return;
  const cache = await caches.open(CACHE);
  const response = await fetch(scope, { cache: "no-cache" });
  const html = await response.text();
  // While a new build is being published, the page may not belong to these files. The browser then tries again later.
  if (!response.ok || !html.includes(ENTRY)) throw new Error("the page is of another build");
  await cache.addAll(FIRST_FILES);
  // A copy, because a browser refuses a redirected response to a navigation.
  await cache.put(scope, new Response(html, { headers: response.headers }));
}

/**
 * Deletes the caches of all builds before the previous one, which other tabs may still show. Without an offline mode, it
 * deletes all caches and removes this worker.
 */
async function activate(): Promise<void> {
  // The names are in the order in which the caches were made.
  const older = (await caches.keys()).filter((name) => name.startsWith(PREFIX) && name !== CACHE);
  await Promise.all((files.length === 0 ? older : older.slice(0, -1)).map((name) => caches.delete(name)));
  await (files.length === 0 ? worker.registration.unregister() : worker.clients.claim());
}

/** Returns the page from the network, so that a new build is shown at once; without a network, the cached page. */
async function page(request: Request): Promise<Response> {
  const cached = await (await caches.open(CACHE)).match(scope, MATCH);
  const fresh = fetch(request);
  if (!cached) return fresh;
  const late = new Promise<Response>((resolve) => setTimeout(() => resolve(cached), PATIENCE_MS));
  return Promise.race([fresh.catch(() => cached), late]);
}

/** Returns a file of this or the previous build from the cache, and otherwise from the network. */
async function file(request: Request, event: RequestEvent): Promise<Response> {
  const cached = await caches.match(request.url, MATCH);
  if (cached) return cached;
  const response = await fetch(request);
  if (response.ok && addresses.has(request.url)) event.waitUntil(keep(request.url, response.clone()));
  return response;
}

/** Caches a response. Storage may be full; the page works without the cache. */
async function keep(address: string, response: Response): Promise<void> {
  try {
    await (await caches.open(CACHE)).put(address, response);
  } catch {
    // The next visit fetches the file again.
  }
}

export {};
